/*
 * What tensor names say: the layer, the expert and the role of a tensor.
 *
 * Recognises names of Llama-like, GPT-2-like, BERT-like, T5, Mixtral, Qwen-MoE and DeepSeek models,
 * of fused experts, vision encoders and diffusion transformers, by their module path alone. What
 * it does not recognise has no layer and the role `other`: a wrong guess is worse than none.
 * docs/names.md has the rules and the words.
 */
#ifndef TM_CORE_NAMES_H
#define TM_CORE_NAMES_H

#include "core/base.h"

typedef enum tm_role {
    TM_ROLE_OTHER,
    TM_ROLE_EMBEDDING,
    TM_ROLE_ATTENTION,
    TM_ROLE_MLP,
    TM_ROLE_ROUTER,
    TM_ROLE_NORM,
    TM_ROLE_HEAD,
    TM_ROLE_COUNT
} tm_role;

const char *tm_role_name(tm_role role);

enum {
    TM_NO_LAYER = -1,
    TM_NO_EXPERT = -1,
    TM_FUSED_EXPERTS = -2, /* one tensor holds all experts of the layer along axis 0 */
};

typedef struct tm_place {
    int32_t layer;      /* the index after the name of the outermost stack, or TM_NO_LAYER; it and
                           an expert's are below INT32_MAX */
    int32_t expert;     /* the index, TM_FUSED_EXPERTS, or TM_NO_EXPERT: so without a layer */
    uint32_t stack_len; /* of the prefix that names the stack ("model.layers"); 0: no layer */
    uint32_t leaf_off;  /* where what follows the layer, and the expert if any, begins in the
                           name ("gate_proj.weight"); 0: no layer */
    tm_role role;
} tm_place;

/* Pure, no allocation. RANK is the tensor's (only tensors of rank 3 or more are fused experts,
 * and biases of fused experts are of rank 2). */
tm_place tm_place_of(const char *name, size_t len, size_t rank);

#endif
