/*
 * Element types: safetensors' 22, in the order in which upstream's writer lays them out.
 *
 * A dtype prints as safetensors writes it (BF16); the usual other spellings are understood.
 * Value encodings of the narrow floats: OCP 8-bit (OFP8) and Microscaling (MX) specifications;
 * the FNUZ variants as in Graphcore's and AMD's, with NaN at 0x80 and no infinity or -0.
 */
#ifndef TM_CORE_DTYPE_H
#define TM_CORE_DTYPE_H

#include "core/base.h"

typedef enum tm_dtype {
    TM_BOOL,
    TM_F4,
    TM_F6_E2M3,
    TM_F6_E3M2,
    TM_U8,
    TM_I8,
    TM_F8_E5M2,
    TM_F8_E4M3,
    TM_F8_E8M0,
    TM_F8_E4M3FNUZ,
    TM_F8_E5M2FNUZ,
    TM_I16,
    TM_U16,
    TM_F16,
    TM_BF16,
    TM_I32,
    TM_U32,
    TM_F32,
    TM_C64,
    TM_F64,
    TM_I64,
    TM_U64,
    TM_DTYPE_COUNT
} tm_dtype;

typedef struct tm_dtype_info {
    const char *name;  /* as safetensors writes it */
    unsigned bits;     /* of one element */
    bool is_float;     /* a real floating-point type */
    bool is_opaque;    /* the packing is not specified (F6): bytes only, no values */
    tm_dtype npy;      /* the type that data.npy has: F32 for floats of 16 bits or fewer */
    const char *descr; /* NumPy's descr for this type, NULL where NumPy has none */
} tm_dtype_info;

/* The row of DTYPE; DTYPE must be a valid one. */
const tm_dtype_info *tm_dtype_get(tm_dtype dtype);

/* Finds a dtype by safetensors' exact spelling: what a header may contain. */
bool tm_dtype_parse_exact(const char *name, size_t len, tm_dtype *ret);

/* Finds a dtype by any usual spelling: BF16, bf16, bfloat16, torch.bfloat16, float8_e4m3fn, … */
bool tm_dtype_parse(const char *name, size_t len, tm_dtype *ret);

/* Bytes of N elements; false on overflow, or where they do not fill whole bytes. */
bool tm_dtype_bytes(tm_dtype dtype, uint64_t n, uint64_t *ret_bytes);

#endif
