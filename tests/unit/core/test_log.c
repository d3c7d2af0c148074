/* The log: its lines in memory and in a file, repeats, bounds, many threads. */
#include "core/log.h"

#include <pthread.h>

#include "tests/unit/core/folder.h"

static tm_log *log_new(const char *to)
{
    tm_log *log;
    assert_int_equal(tm_log_new(to, &log), 0);
    return log;
}

/* The lines of TEXT without their times, which are checked for form. */
static char *without_times(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z ";
    char *ret = calloc(1, strlen(text) + 1), *end = ret;
    assert_non_null(ret);
    while (*text) {
        for (size_t i = 0; i < sizeof(form) - 1; i++)
            assert_true(form[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i]);
        text += sizeof(form) - 1;
        const char *line_end = strchr(text, '\n');
        assert_non_null(line_end);
        memcpy(end, text, (size_t)(line_end + 1 - text));
        end += line_end + 1 - text;
        text = line_end + 1;
    }
    return ret;
}

static void expect_log(tm_log *log, const char *expected)
{
    size_t len;
    char *text = tm_log_text(log, &len);
    assert_non_null(text);
    assert_int_equal(strlen(text), len);
    char *lines = without_times(text);
    assert_string_equal(lines, expected);
    free(lines);
    free(text);
}

static void expect_file(const char *path, const char *expected)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    char *lines = without_times(text);
    assert_string_equal(lines, expected);
    free(lines);
}

static void lines_are_kept_with_time_and_level(void **state)
{
    (void)state;
    tm_log *log = log_new(NULL);
    expect_log(log, "");
    tm_log_add(log, TM_LOG_INFO, "mounted %d models", 3);
    tm_log_add(log, TM_LOG_WARNING, "%s", "100% of it");
    tm_log_add(log, TM_LOG_ERROR, "gone");
    expect_log(log, "info: mounted 3 models\nwarning: 100% of it\nerror: gone\n");
    tm_log_free(log);
    tm_log_free(NULL);
}

static void a_line_stays_one_line(void **state)
{
    (void)state;
    tm_log *log = log_new(NULL);
    tm_log_add(log, TM_LOG_ERROR, "a\nerror: forged\r\t\x1b[31m\x7f \xc3\xa9");
    expect_log(log, "error: a?error: forged???[31m? \xc3\xa9\n");
    tm_log_free(log);
}

static void a_line_too_long_is_cut(void **state)
{
    (void)state;
    char longer[3000], expected[3000];
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    snprintf(expected, sizeof(expected), "info: %.*s\n", TM_LOG_LINE_MAX - 1, longer);
    tm_log *log = log_new(NULL);
    tm_log_add(log, TM_LOG_INFO, "%s", longer);
    expect_log(log, expected);
    tm_log_free(log);
}

static void equal_lines_are_counted(void **state)
{
    (void)state;
    tm_log *log = log_new(NULL);
    for (int i = 0; i < 4; i++)
        tm_log_add(log, TM_LOG_ERROR, "no answer");
    tm_log_add(log, TM_LOG_INFO, "an answer");
    tm_log_add(log, TM_LOG_ERROR, "no answer");
    expect_log(log, "error: no answer\ninfo: the last line came 3 more times\ninfo: an answer\n"
                    "error: no answer\n");
    tm_log_add(log, TM_LOG_ERROR, "no answer");
    tm_log_add(log, TM_LOG_ERROR, "no answer");
    expect_log(log, "error: no answer\ninfo: the last line came 3 more times\ninfo: an answer\n"
                    "error: no answer\ninfo: the last line came 2 more times\n");
    tm_log_free(log);
}

static void an_empty_line_is_a_line_and_the_first_repeats_nothing(void **state)
{
    (void)state;
    tm_log *log = log_new(NULL);
    tm_log_add(log, TM_LOG_INFO, "%s", "");
    tm_log_add(log, TM_LOG_INFO, "next");
    expect_log(log, "info: \ninfo: next\n");
    tm_log_free(log);
}

static void the_last_lines_are_kept(void **state)
{
    (void)state;
    tm_log *log = log_new(NULL);
    for (int i = 0; i < 2 * TM_LOG_LINES + 100; i++)
        tm_log_add(log, TM_LOG_INFO, "line %d", i);
    size_t len;
    char *text = tm_log_text(log, &len), *lines = without_times(text), *at = lines;
    for (int i = TM_LOG_LINES + 100; i < 2 * TM_LOG_LINES + 100; i++) {
        char expected[40];
        snprintf(expected, sizeof(expected), "info: line %d\n", i);
        assert_int_equal(strncmp(at, expected, strlen(expected)), 0);
        at += strlen(expected);
    }
    assert_string_equal(at, "");
    free(lines);
    free(text);
    tm_log_free(log);
}

static void lines_are_appended_to_a_file_repeats_at_the_end_too(void **state)
{
    (void)state;
    char path[FOLDER_PATH_MAX];
    path_in(path, "log");
    tm_log *log = log_new(path);
    tm_log_add(log, TM_LOG_INFO, "first");
    expect_file(path, "info: first\n"); /* at once */
    tm_log_free(log);
    log = log_new(path);
    expect_log(log, "");
    tm_log_add(log, TM_LOG_WARNING, "second");
    tm_log_add(log, TM_LOG_WARNING, "second");
    tm_log_free(log);
    expect_file(path, "info: first\nwarning: second\ninfo: the last line came 1 more times\n");
    folder_clear();
}

static void a_log_that_cannot_be_opened_is_an_error(void **state)
{
    (void)state;
    char path[FOLDER_PATH_MAX];
    tm_log *log;
    assert_int_equal(tm_log_new(path_in(path, "absent/log"), &log), -ENOENT);
    assert_int_equal(tm_log_new(folder, &log), -EISDIR);
}

static void a_log_that_cannot_be_written_keeps_its_lines(void **state)
{
    (void)state;
    struct stat st;
    if (stat("/dev/full", &st) < 0)
        skip();
    tm_log *log = log_new("/dev/full");
    tm_log_add(log, TM_LOG_ERROR, "kept");
    expect_log(log, "error: kept\n");
    tm_log_free(log);
}

enum {
    THREADS = 3,
    LINES = 300
};

static void *add_lines(void *log)
{
    for (int i = 0; i < LINES; i++)
        tm_log_add(log, TM_LOG_INFO, "%lu %d", (unsigned long)pthread_self(), i);
    return NULL;
}

static void many_threads_may_log(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    tm_log *log = log_new(NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_lines, log), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    size_t len, count = 0;
    char *text = tm_log_text(log, &len), *lines = without_times(text);
    for (const char *p = lines; *p; p++)
        count += *p == '\n';
    assert_int_equal(count, THREADS * LINES);
    free(lines);
    free(text);
    tm_log_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_kept_with_time_and_level),
        cmocka_unit_test(a_line_stays_one_line),
        cmocka_unit_test(a_line_too_long_is_cut),
        cmocka_unit_test(equal_lines_are_counted),
        cmocka_unit_test(an_empty_line_is_a_line_and_the_first_repeats_nothing),
        cmocka_unit_test(the_last_lines_are_kept),
        cmocka_unit_test(lines_are_appended_to_a_file_repeats_at_the_end_too),
        cmocka_unit_test(a_log_that_cannot_be_opened_is_an_error),
        cmocka_unit_test(a_log_that_cannot_be_written_keeps_its_lines),
        cmocka_unit_test(many_threads_may_log),
    };
    return cmocka_run_group_tests(tests, folder_new, folder_free);
}
