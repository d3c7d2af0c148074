/* Streams: exact chunks, and what is told ahead of them. */
#include "formats/byte_source.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    SIZE = 40 << 20,
    MIB = 1 << 20
};

typedef struct stream {
    uint64_t read, told, end; /* up to where; told begins with what is not worth it */
    unsigned tellings;
} stream;

static int read_zeros(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    stream *s = ctx;
    (void)req;
    assert_int_equal(off, s->read);
    memset(dst, 0, len);
    s->read = off + len;
    return 0;
}

static void note_ahead(void *ctx, uint64_t off, size_t len, tm_lane lane)
{
    stream *s = ctx;
    assert_int_equal(lane, TM_LANE_SELECTION);
    assert_true(off == s->told && off > s->read && off + len <= s->end); /* none twice, no gap */
    assert_in_range(off + len - s->read, 1, 8 * MIB);
    s->told = off + len;
    s->tellings++;
}

static int take(void *ctx, const void *data, size_t len)
{
    (void)data;
    *(uint64_t *)ctx += len;
    return 0;
}

static void a_stream_tells_what_it_will_read_and_no_more(void **state)
{
    (void)state;
    static const struct {
        uint64_t off, end;
        unsigned tellings;
    } rows[] = {{0, 0, 0},         {8, 100, 0},         {8, MIB, 0},     {0, 2 * MIB, 1},
                {8, 30 * MIB, 29}, {5 * MIB, SIZE, 34}, {0, 8 * MIB, 7}, {SIZE - 1, SIZE, 0}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        stream s = {.read = rows[i].off, .end = rows[i].end};
        s.told = tm_min_u64(rows[i].off + TM_BYTE_SOURCE_CHUNK, rows[i].end);
        tm_byte_source src = {
            .name = "s", .size = SIZE, .ctx = &s, .read = read_zeros, .ahead = note_ahead};
        tm_req req;
        uint64_t taken = 0;
        tm_req_init(&req, TM_LANE_SELECTION);
        assert_int_equal(tm_byte_source_stream(&src, rows[i].off, rows[i].end, take, &taken, &req),
                         0);
        assert_int_equal(taken, rows[i].end - rows[i].off);
        assert_int_equal(s.tellings, rows[i].tellings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_tells_what_it_will_read_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
