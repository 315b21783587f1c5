/* Mapping, and replacing as a whole: whatever goes wrong on the way, the old file stays and nothing is left beside it.
 */
#include "temporary.h"

#include <signal.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"

static void assert_holds(const char *path, const char *text) {
    gp_file_map map;
    assert_int_equal(gp_file_map_open(&map, path), GP_OK);
    assert_int_equal(map.bytes, strlen(text));
    assert_memory_equal(map.data, text, map.bytes);
    gp_file_map_close(&map);
    assert_null(map.data);
}

static void test_map(void **state) {
    gp_file_map map = {0};
    gp_file_map_close(&map);
    assert_holds(temporary_write_text(*state, "a", "some text"), "some text");
    assert_int_equal(gp_file_map_open(&map, temporary_write_text(*state, "b", "")), GP_OK);
    assert_int_equal(map.bytes, 0);
    assert_non_null(map.data);
    gp_file_map_close(&map);
    assert_int_equal(gp_file_map_open(&map, temporary_path(*state, "none")), GP_INVALID);
    assert_message_has(gp_error_message(), "No such file");
    assert_int_equal(gp_file_map_open(&map, temporary_path(*state, "a/b")), GP_INVALID);
    assert_int_equal(gp_file_map_open(&map, "/dev/null"), GP_INVALID);
    assert_message_has(gp_error_message(), "not a regular file");
}

/* A device, a pipe or a folder is never replaced, whoever asks; what a link points to counts. */
static void test_special_target(void **state) {
    temporary *t = *state;
    const char *folder = temporary_path(t, "folder"), *pipe = temporary_path(t, "pipe");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(mkfifo(pipe, 0666), 0);
    const char *link = temporary_path(t, "link");
    assert_int_equal(symlink("/dev/null", link), 0);
    const char *targets[] = {folder, pipe, link};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        gp_file_writer *writer;
        assert_int_equal(gp_file_writer_create(&writer, targets[i]), GP_INVALID);
        assert_null(writer);
        assert_message_has(gp_error_message(), i == 0 ? "a folder" : "not a regular file");
    }
    assert_int_equal(temporary_count(t), 3);
    rmdir(folder);
    unlink(pipe);
    unlink(link);
}

static void test_replace(void **state) {
    temporary *t = *state;
    const char *path = temporary_write_text(t, "file", "old");
    gp_file_writer *first, *second;
    assert_int_equal(gp_file_writer_create(&first, path), GP_OK);
    assert_int_equal(gp_file_writer_create(&second, path), GP_OK); /* two at once do not meet */
    assert_int_equal(gp_file_writer_write(first, "new ", 4), GP_OK);
    assert_int_equal(gp_file_writer_write(second, "abandoned", 9), GP_OK);
    assert_int_equal(gp_file_writer_write(first, "text", 4), GP_OK);
    assert_holds(path, "old");
    gp_file_writer_destroy(second);
    assert_holds(path, "old");
    assert_int_equal(gp_file_writer_commit(first), GP_OK);
    gp_file_writer_destroy(first);
    assert_holds(path, "new text");
    assert_int_equal(temporary_count(t), 1);
    gp_file_writer_destroy(NULL);
    /* The permissions are those of any new file. */
    struct stat info;
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
}

/* In the working folder, without a slash in the path. */
static void test_relative_path(void **state) {
    char *before = getcwd(NULL, 0);
    assert_non_null(before);
    assert_int_equal(chdir(((temporary *)*state)->folder), 0);
    gp_file_writer *writer;
    assert_int_equal(gp_file_writer_create(&writer, "plain"), GP_OK);
    assert_int_equal(gp_file_writer_write(writer, "x", 1), GP_OK);
    assert_int_equal(gp_file_writer_commit(writer), GP_OK);
    gp_file_writer_destroy(writer);
    assert_holds("plain", "x");
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* As a full disk: the system refuses bytes beyond a limit. */
static void test_no_room(void **state) {
    temporary *t = *state;
    const char *path = temporary_write_text(t, "file", "old");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    gp_file_writer *writer;
    char bytes[700] = {0};
    assert_int_equal(gp_file_writer_create(&writer, path), GP_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    gp_status one = gp_file_writer_write(writer, bytes, sizeof bytes);
    gp_status two = gp_file_writer_write(writer, bytes, sizeof bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(one, GP_OK);
    assert_int_equal(two, GP_IO);
    assert_message_has(gp_error_message(), "could not be written");
    gp_file_writer_destroy(writer);
    assert_holds(path, "old");
    assert_int_equal(temporary_count(t), 1);
}

static void test_failures(void **state) {
    temporary *t = *state;
    gp_file_writer *writer;
    assert_int_equal(gp_file_writer_create(&writer, temporary_path(t, "no/folder")), GP_IO);
    assert_null(writer);
    /* A folder cannot be replaced; that shows at the end. */
    const char *late = temporary_path(t, "late"); /* a folder that came in between */
    assert_int_equal(gp_file_writer_create(&writer, late), GP_OK);
    assert_int_equal(mkdir(late, 0777), 0);
    assert_int_equal(gp_file_writer_commit(writer), GP_IO);
    assert_message_has(gp_error_message(), "could not be replaced");
    gp_file_writer_destroy(writer);
    assert_int_equal(rmdir(late), 0);
    for (uint64_t n = 1; n <= 3; n++) {
        gp_allocation_fail_at(n);
        assert_int_equal(gp_file_writer_create(&writer, temporary_path(t, "x")), GP_OUT_OF_MEMORY);
        assert_null(writer);
    }
    assert_int_equal(temporary_count(t), 0);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_map),           WITH_FOLDER(test_special_target), WITH_FOLDER(test_replace),
        WITH_FOLDER(test_relative_path), WITH_FOLDER(test_no_room),        WITH_FOLDER(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
