/* A name is read once, from left to right, by the words of its parts. */
#include "core/names.h"

#include "core/names_words.h"

/* Between two dots of a name. */
struct part {
    const char *text; /* NULL: there is none */
    size_t len;
    size_t off;    /* in the name */
    uint64_t head; /* its first 8 bytes, zero beyond its end */
    bool last;
};

/* What has been read of a name so far. */
struct reading {
    tm_place place;
    uint32_t fused_off; /* where the leaf of fused experts would begin; 0: no such word yet */
    tm_role box, part;  /* see WORD_BOX and WORD_PART; TM_ROLE_OTHER: no such word yet */
    bool gated;         /* the box may hold a router */
    bool in_experts;    /* where `gate` is a projection */
    bool router;
    bool norm;       /* the last module is a normalisation */
    bool below_norm; /* the last module is none, but stands in one: a modulation */
    bool bare;       /* nothing but numbers since the layer */
    bool in_list;    /* the next number counts models */
    bool no_stack; /* below a number of we know not what: what is counted here starts anew there */
};

static const tm_place no_place = {.layer = TM_NO_LAYER, .expert = TM_NO_EXPERT};

const char *tm_role_name(tm_role role)
{
    static const char *const names[TM_ROLE_COUNT] = {
        [TM_ROLE_OTHER] = "other",         [TM_ROLE_EMBEDDING] = "embedding",
        [TM_ROLE_ATTENTION] = "attention", [TM_ROLE_MLP] = "mlp",
        [TM_ROLE_ROUTER] = "router",       [TM_ROLE_NORM] = "norm",
        [TM_ROLE_HEAD] = "head",
    };
    assert(role >= 0 && role < TM_ROLE_COUNT);
    return names[role];
}

/* The first 8 bytes of TEXT, of which LEN count and ROOM may be read. */
static uint64_t head_of(const char *text, size_t len, size_t room)
{
    if (len >= 8)
        return tm_le64(text);
    if (room >= 8)
        return tm_le64(text) & (((uint64_t)1 << (8 * len)) - 1);
    uint64_t head = 0;
    memcpy(&head, text, len);
    return head;
}

static void part_at(const char *name, size_t len, size_t off, struct part *ret)
{
    assert(off <= len);
    const char *text = name + off;
    size_t room = len - off;
    const char *dot = memchr(text, '.', room);
    ret->text = text;
    ret->len = dot ? (size_t)(dot - text) : room;
    ret->off = off;
    ret->head = head_of(text, ret->len, room);
    ret->last = !dot;
}

static bool is_number(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return len > 0;
}

/* False where the digits are no index: a leading zero, or so large that a count of one more would
 * not fit an int32_t. */
static bool parse_index(const char *text, size_t len, int32_t *ret)
{
    if (!is_number(text, len) || len > 10 || (len > 1 && text[0] == '0'))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    if (value >= INT32_MAX)
        return false;
    *ret = (int32_t)value;
    return true;
}

static const word *find_word(const struct part *part)
{
    if (part->len >= TM_ARRAY_LEN(words_of_len))
        return NULL;
    const struct bucket *bucket = &words_of_len[part->len];
    for (size_t i = 0; i < bucket->count; i++) {
        const word *w = &bucket->words[i];
        if (tm_le64(w->text) == part->head &&
            (part->len <= 8 || memcmp(w->text + 8, part->text + 8, part->len - 8) == 0))
            return w;
    }
    return NULL;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* NEEDLE is in lower case. Returns the rest of TEXT after the first match, NULL without one. */
static const char *find_spelling(const char *text, size_t len, const char *needle)
{
    size_t n = strlen(needle);
    for (size_t i = 0; i + n <= len; i++) {
        size_t j = 0;
        while (j < n && lower(text[i + j]) == needle[j])
            j++;
        if (j == n)
            return text + i + n;
    }
    return NULL;
}

/* "norm" anywhere ("input_layernorm", "norm_added_q", "LayerNorm"), but not "normal", and the
 * short form: "ln", "ln_f", "ln1", "embed_ln". */
static bool spells_norm(const struct part *part)
{
    const char *text = part->text, *end = text + part->len;
    const char *rest = find_spelling(text, part->len, "norm");
    if (rest) {
        bool normal = end - rest >= 2 && lower(rest[0]) == 'a' && lower(rest[1]) == 'l';
        bool normalise = normal && end - rest >= 3 && lower(rest[2]) == 'i';
        return !normal || normalise;
    }
    if (part->len < 2)
        return false;
    bool starts = text[0] == 'l' && text[1] == 'n' &&
                  (part->len == 2 || text[2] == '_' || (text[2] >= '0' && text[2] <= '9'));
    return starts || (part->len > 3 && memcmp(end - 3, "_ln", 3) == 0);
}

/* "encoder_attn", "SelfAttention"; but "attentions" is a list of blocks that hold more. */
static bool spells_attention(const struct part *part)
{
    const char *end = part->text + part->len;
    const char *rest = find_spelling(part->text, part->len, "attention");
    if (rest)
        return rest == end || *rest != 's';
    return find_spelling(part->text, part->len, "attn") != NULL;
}

static bool in_layer(const struct reading *r)
{
    return r->place.layer != TM_NO_LAYER;
}

static void note_norm(struct reading *r, const struct part *part, bool norm)
{
    if (part->last && !norm)
        return; /* a parameter of whatever holds it */
    r->below_norm = !norm && (r->norm || r->below_norm);
    r->norm = norm;
}

/* What a part that is no word of ours says by its spelling. Longer ones are whole paths whose
 * dots became underscores. */
static void read_spelling(struct reading *r, const struct part *part)
{
    enum {
        LONGEST = 32
    };
    bool norm = part->len <= LONGEST && spells_norm(part);
    note_norm(r, part, norm);
    if (!norm && in_layer(r) && part->len <= LONGEST && spells_attention(part)) {
        r->box = TM_ROLE_ATTENTION;
        r->gated = false;
    }
}

static void read_number(struct reading *r)
{
    r->no_stack |= !in_layer(r) && !r->in_list;
    r->in_list = false;
}

/* The outermost stack decides, unless what it stands in is a block of its own already. */
static void read_stack(struct reading *r, const struct part *part, const struct part *next)
{
    if (in_layer(r) || r->no_stack || r->box != TM_ROLE_OTHER || r->part != TM_ROLE_OTHER)
        return;
    int32_t layer;
    if (!next->text || next->last || !parse_index(next->text, next->len, &layer))
        return;
    *r = (struct reading){.place = no_place, .bare = true};
    r->place.layer = layer;
    r->place.stack_len = (uint32_t)(part->off + part->len);
    r->place.leaf_off = (uint32_t)(next->off + next->len + 1);
}

static void read_experts(struct reading *r, const struct part *next)
{
    static const char prefix[] = "expert_";
    enum {
        PREFIX = sizeof(prefix) - 1
    };
    if (r->box != TM_ROLE_ATTENTION)
        r->box = TM_ROLE_MLP;
    r->in_experts = true;
    if (!in_layer(r) || !next->text || r->place.expert != TM_NO_EXPERT)
        return;
    const char *digits = next->text;
    size_t len = next->len;
    if (len > PREFIX && memcmp(digits, prefix, PREFIX) == 0) {
        digits += PREFIX;
        len -= PREFIX;
    }
    if (!is_number(digits, len))
        r->fused_off = (uint32_t)next->off;
    else if (!next->last && parse_index(digits, len, &r->place.expert))
        r->place.leaf_off = (uint32_t)(next->off + next->len + 1);
}

static bool is_last_module(const struct part *part, const struct part *next)
{
    if (part->last)
        return true;
    const word *w = find_word(next);
    return w && (w->kind == WORD_PARAM || w->kind == WORD_PLAIN);
}

static void read_module(struct reading *r, const word *w, const struct part *part,
                        const struct part *next)
{
    tm_role role = w->role;
    if ((w->flags & HEAD_IF_WHOLE) && part->off == 0 && is_last_module(part, next))
        role = TM_ROLE_HEAD;
    else if ((w->flags & (in_layer(r) ? OUTSIDE : INSIDE)) ||
             ((w->flags & LAST) && !is_last_module(part, next)))
        return;
    if (w->kind == WORD_BOX) {
        r->box = role;
        r->gated = w->flags & GATED;
    } else if (r->part == TM_ROLE_OTHER) {
        r->part = role;
    }
    if (w->kind == WORD_FUSED && in_layer(r))
        r->fused_off = (uint32_t)part->off;
}

static void read_word(struct reading *r, const word *w, const struct part *part,
                      const struct part *next)
{
    switch ((word_kind)w->kind) {
    case WORD_PLAIN:
    case WORD_PARAM:
        break;
    case WORD_STACK:
        read_stack(r, part, next);
        break;
    case WORD_LIST:
        r->in_list = next->text && is_number(next->text, next->len);
        break;
    case WORD_EXPERTS:
        read_experts(r, next);
        break;
    case WORD_ROUTER:
        r->router = true;
        break;
    case WORD_GATE:
        r->router |= r->gated && !r->in_experts;
        break;
    case WORD_FUSED:
    case WORD_BOX:
    case WORD_PART:
        read_module(r, w, part, next);
        break;
    }
    note_norm(r, part, false);
}

/* False where the module path ends. */
static bool read_part(struct reading *r, const struct part *part, const struct part *next)
{
    if (is_number(part->text, part->len)) {
        read_number(r);
        return true;
    }
    const word *w = find_word(part);
    if (w && w->kind == WORD_PLAIN)
        return true;
    if (w && w->kind == WORD_PARAM) {
        /* A parameter of what was counted: single operators, not layers. */
        if (r->bare)
            r->place = no_place;
        return false;
    }
    r->bare = false;
    if (w)
        read_word(r, w, part, next);
    else
        read_spelling(r, part);
    return true;
}

static tm_role role_of(const struct reading *r)
{
    if (r->norm)
        return TM_ROLE_NORM;
    if (r->below_norm)
        return TM_ROLE_OTHER;
    if (r->router)
        return TM_ROLE_ROUTER;
    return r->box != TM_ROLE_OTHER ? r->box : r->part;
}

static void read_name(struct reading *r, const char *name, size_t len)
{
    struct part parts[2], *part = &parts[0], *next = &parts[1];
    part_at(name, len, 0, part);
    for (;;) {
        if (part->last)
            next->text = NULL;
        else
            part_at(name, len, part->off + part->len + 1, next);
        if (!read_part(r, part, next) || part->last)
            return;
        struct part *done = part;
        part = next;
        next = done;
    }
}

tm_place tm_place_of(const char *name, size_t len, size_t rank)
{
    struct reading r = {.place = no_place};
    if (len == 0 || len > UINT32_MAX)
        return r.place;
    read_name(&r, name, len);
    bool bias = len >= 4 && memcmp(name + len - 4, "bias", 4) == 0;
    bool fused = in_layer(&r) && r.fused_off && r.place.expert == TM_NO_EXPERT;
    if (fused && (rank >= 3 || (rank == 2 && bias))) {
        r.place.expert = TM_FUSED_EXPERTS;
        r.place.leaf_off = r.fused_off;
    }
    assert(r.place.leaf_off <= len && r.place.stack_len <= r.place.leaf_off);
    r.place.role = role_of(&r);
    return r.place;
}
