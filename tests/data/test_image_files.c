/* Where images come from: every format gives the same images, and what is wrong with a source is said. */
#include "image_files.h"

#include <locale.h>

#include "data/image/collection.h"
#include "gpipe/images.h"

enum { SIDE = 8 };

static const char *const class_names[] = {"ape", "bee", "cat"};

/* Three classes with four pictures each, and what is no picture, below `root`. */
static void write_folder(temporary *t, const char *root) {
    char name[128];
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "%s/%s/%s%d.%s", root, class_names[c], i == 3 ? "below/" : "", i,
                     i % 2 ? "png" : "JPG");
            write_image(t, name, i % 2 ? png_picture(c, SIDE, SIDE) : jpeg_picture(c, SIDE, SIDE));
        }
    }
    snprintf(name, sizeof name, "%s/bee/readme.txt", root);
    temporary_write_text(t, name, "no picture");
    snprintf(name, sizeof name, "%s/bee/.hidden.jpg", root);
    temporary_write_text(t, name, "no picture");
}

static const char *write_tar(temporary *t, const char *file, int filter, const char *prefix) {
    const char *path = temporary_path(t, file);
    struct archive *tar = tar_create(path, filter);
    char name[128];
    for (int i = 0; i < 4; i++) {
        for (int c = 2; c >= 0; c--) {
            snprintf(name, sizeof name, "%s%s/%d.%s", prefix, class_names[c], i, i % 2 ? "png" : "jpeg");
            tar_add_image(tar, name, i % 2 ? png_picture(c, SIDE, SIDE) : jpeg_picture(c, SIDE, SIDE));
        }
    }
    tar_add(tar, "notes.txt", "no picture", 10);
    tar_close(tar);
    return path;
}

static void check_classes(const gp_collection *collection, const gp_classes *classes) {
    gp_buffer buffer = {0};
    gp_decoder decoder = {.most_pixels = 1 << 20};
    gp_pixels pixels = {0};
    for (size_t i = 0; i < collection->count; i++) {
        gp_stored_image image;
        gp_image_header header;
        int kind = collection->items[i].label;
        assert_in_range(kind, 0, gp_classes_count(classes) - 1);
        assert_int_equal(gp_collection_open(collection, i, &buffer, &image), GP_OK);
        assert_int_equal(gp_decode_header(&decoder, image.bytes, image.size, &header), GP_OK);
        assert_int_equal(gp_decode(&decoder, image.bytes, image.size, &header, 1, 3, &pixels), GP_OK);
        /* Only that channel grows from left to right. */
        for (int c = 0; c < 3; c++)
            assert_int_equal(gp_pixels_at(&pixels, 7, 4)[c] > gp_pixels_at(&pixels, 0, 4)[c], c == kind);
    }
    gp_buffer_free(&buffer);
    gp_pixels_free(&pixels);
    gp_decoder_free(&decoder);
}

/* Collects twelve pictures of three classes. */
static void check_source(const char *pattern, gp_image_format format) {
    gp_collection collection = {0};
    gp_classes *classes;
    gp_status status = gp_collect(&collection, pattern, format, NULL);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    assert_int_equal(collection.count, 12);
    assert_int_equal(collection.ignored, 1);
    assert_int_equal(gp_collection_list_classes(&collection, &classes), GP_OK);
    assert_int_equal(gp_classes_count(classes), 3);
    for (size_t c = 0; c < 3; c++)
        assert_string_equal(gp_classes_name(classes, c), class_names[c]);
    assert_int_equal(gp_collection_settle(&collection, classes, "the images"), GP_OK);
    check_classes(&collection, classes);
    gp_classes_destroy(classes);
    gp_collection_free(&collection);
}

static void test_folder(void **state) {
    write_folder(*state, "data");
    check_source(temporary_path(*state, "data"), GP_IMAGES_AUTO);
    check_source(temporary_path(*state, "data/"), GP_IMAGES_FOLDER);
}

static void test_tar(void **state) {
    static const struct {
        const char *file, *prefix;
        int filter;
    } cases[] = {
        {"plain.tar", "", ARCHIVE_FILTER_NONE},         {"dotted.tar", "./", ARCHIVE_FILTER_NONE},
        {"deep.tar", "a/b//./c/", ARCHIVE_FILTER_NONE}, {"packed.tar.gz", "./", ARCHIVE_FILTER_GZIP},
        {"packed.tar.xz", "x/", ARCHIVE_FILTER_XZ},     {"packed.tar.zst", "", ARCHIVE_FILTER_ZSTD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_source(write_tar(*state, cases[i].file, cases[i].filter, cases[i].prefix), GP_IMAGES_AUTO);
}

/* Shards: several archives, plain and compressed, by a pattern; a class may be in one of them only. */
static void test_shards(void **state) {
    temporary *t = *state;
    for (int c = 0; c < 3; c++) {
        char file[32], name[64];
        snprintf(file, sizeof file, "shard%d.tar%s", c, c == 1 ? ".gz" : "");
        struct archive *tar = tar_create(temporary_path(t, file), c == 1 ? ARCHIVE_FILTER_GZIP : ARCHIVE_FILTER_NONE);
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "%s/%d.jpg", class_names[c], i);
            tar_add_image(tar, name, jpeg_picture(c, SIDE, SIDE));
        }
        if (c == 0) tar_add(tar, "index", "0", 1);
        tar_close(tar);
    }
    check_source(temporary_path(t, "shard*.tar*"), GP_IMAGES_AUTO);
}

/* Names that the C locale cannot say, as bytes and (written under another locale) as UTF-8 by the standard. */
static void test_names_in_utf8(void **state) {
    temporary *t = *state;
    for (int standard = 0; standard < 2; standard++) {
        if (standard && !setlocale(LC_CTYPE, "C.UTF-8")) continue;
        gp_collection collection = {0};
        gp_classes *classes;
        const char *path = temporary_path(t, "names.tar");
        struct archive *tar = tar_create(path, ARCHIVE_FILTER_NONE);
        tar_add_image(tar, "Möwe/eins.jpg", jpeg_picture(0, SIDE, SIDE));
        tar_add_image(tar, "鳥/二.jpg", jpeg_picture(0, SIDE, SIDE));
        tar_close(tar);
        setlocale(LC_CTYPE, "C");
        assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_OK);
        assert_int_equal(gp_collection_list_classes(&collection, &classes), GP_OK);
        assert_int_equal(gp_classes_find(classes, "Möwe"), 0);
        assert_int_equal(gp_classes_find(classes, "鳥"), 1);
        gp_classes_destroy(classes);
        gp_collection_free(&collection);
    }
}

/* ---- plain files ---- */

static void check_plain(gp_collection *collection, size_t count, int channels, int side) {
    assert_int_equal(collection->count, count);
    for (size_t i = 0; i < count; i++) {
        gp_stored_image image;
        assert_int_equal(gp_collection_open(collection, i, NULL, &image), GP_OK);
        assert_true(image.plain && image.width == side && image.channels == channels);
        assert_int_equal(image.size, channels * side * side);
        assert_int_equal(image.bytes[0], i);
        assert_int_equal(image.bytes[image.size - 1], i);
    }
}

static void test_cifar(void **state) {
    temporary *t = *state;
    static uint8_t records[5 * 3074];
    for (int classes = 10; classes <= 100; classes += 90) {
        size_t labels = classes == 10 ? 1 : 2, record = labels + 3072;
        for (size_t i = 0; i < 5; i++) {
            memset(records + i * record, (int)i, record);
            records[i * record + labels - 1] = (uint8_t)(classes == 10 ? i : 95 + i);
        }
        gp_collection collection = {0};
        gp_classes *list;
        const char *path = temporary_write(t, "batch_1.bin", records, 5 * record);
        assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_OK);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(collection.items[i].label, classes == 10 ? i : 95 + i);
        check_plain(&collection, 5, 3, 32);
        assert_int_equal(gp_collection_list_classes(&collection, &list), GP_OK);
        assert_int_equal(gp_classes_count(list), classes);
        assert_string_equal(gp_classes_name(list, 9), "9");
        gp_classes_destroy(list);
        gp_collection_free(&collection);
    }
}

static void test_names_of_cifar(void **state) {
    temporary *t = *state;
    static uint8_t record[3073];
    gp_collection collection = {0}, nameless = {0};
    gp_classes *list;
    record[0] = 9;
    temporary_write_text(t, "a/batches.meta.txt", "zebra\nyak\nx\nw\nv\nu\nt\ns\nr\nquail\n\n");
    const char *path = temporary_write(t, "a/data.bin", record, sizeof record);
    assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_OK);
    assert_int_equal(gp_collection_list_classes(&collection, &list), GP_OK);
    assert_string_equal(gp_classes_name(list, 0), "zebra");
    assert_string_equal(gp_classes_name(list, 9), "quail");
    assert_int_equal(gp_collection_settle(&collection, list, "they"), GP_OK);
    assert_int_equal(collection.items[0].label, 9);
    /* A file that no names stand beside goes by the numbers. */
    path = temporary_write(t, "b/test.bin", record, sizeof record);
    assert_int_equal(gp_collect(&nameless, path, GP_IMAGES_AUTO, NULL), GP_OK);
    assert_int_equal(gp_collection_settle(&nameless, list, "they"), GP_OK);
    assert_int_equal(nameless.items[0].label, 9);
    gp_classes_destroy(list);
    gp_collection_free(&collection);
    gp_collection_free(&nameless);
    temporary_write_text(t, "a/batches.meta.txt", "zebra\nyak\n");
    path = temporary_path(t, "a/data.bin");
    assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "does not have the names of 10 classes");
    gp_collection_free(&collection);
}

enum { DIGITS = 6, DIGIT_SIDE = 5 };

static size_t idx_images(uint8_t *bytes) {
    static const uint8_t head[16] = {0, 0, 8, 3, 0, 0, 0, DIGITS, 0, 0, 0, DIGIT_SIDE, 0, 0, 0, DIGIT_SIDE};
    memcpy(bytes, head, sizeof head);
    for (int i = 0; i < DIGITS; i++)
        memset(bytes + 16 + i * DIGIT_SIDE * DIGIT_SIDE, i, DIGIT_SIDE * DIGIT_SIDE);
    return 16 + DIGITS * DIGIT_SIDE * DIGIT_SIDE;
}

static const uint8_t idx_labels[] = {0, 0, 8, 1, 0, 0, 0, DIGITS, 3, 1, 4, 1, 5, 9};

static const char *write_packed(temporary *t, const char *name, const void *bytes, size_t size) {
    const char *path = temporary_path(t, name);
    struct archive *raw = archive_write_new();
    archive_write_add_filter_gzip(raw);
    archive_write_set_format_raw(raw);
    assert_int_equal(archive_write_open_filename(raw, path), ARCHIVE_OK);
    tar_add(raw, "data", bytes, size);
    tar_close(raw);
    return path;
}

static void test_idx(void **state) {
    temporary *t = *state;
    uint8_t bytes[16 + DIGITS * DIGIT_SIDE * DIGIT_SIDE];
    size_t size = idx_images(bytes);
    for (int packed = 0; packed < 2; packed++) {
        gp_collection collection = {0};
        gp_classes *list;
        const char *path;
        if (packed) {
            write_packed(t, "t10k-labels-idx1-ubyte.gz", idx_labels, sizeof idx_labels);
            path = write_packed(t, "t10k-images-idx3-ubyte.gz", bytes, size);
        } else {
            temporary_write(t, "train-labels.idx1-ubyte", idx_labels, sizeof idx_labels);
            path = temporary_write(t, "train-images.idx3-ubyte", bytes, size);
        }
        assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_OK);
        check_plain(&collection, DIGITS, 1, DIGIT_SIDE);
        for (int i = 0; i < DIGITS; i++)
            assert_int_equal(collection.items[i].label, idx_labels[8 + i]);
        assert_int_equal(gp_collection_list_classes(&collection, &list), GP_OK);
        assert_int_equal(gp_classes_count(list), 10);
        gp_classes_destroy(list);
        gp_collection_free(&collection);
    }
}

/* ---- what is wrong ---- */

static void refuse_source(const char *pattern, gp_image_format format, const char *reason) {
    gp_collection collection = {0};
    gp_status status = gp_collect(&collection, pattern, format, NULL);
    assert_int_equal(status, GP_INVALID);
    assert_message_has(gp_error_message(), reason);
    gp_collection_free(&collection);
}

static void test_bad_folders(void **state) {
    temporary *t = *state;
    temporary_folders(t, "empty/");
    refuse_source(temporary_path(t, "empty"), GP_IMAGES_AUTO, "empty' has no images: a folder for every class");
    temporary_folders(t, "hollow/one/");
    temporary_folders(t, "hollow/two/");
    refuse_source(temporary_path(t, "hollow"), GP_IMAGES_AUTO, "hollow' has no images");
    temporary_write_text(t, "other/one/a.txt", "text");
    refuse_source(temporary_path(t, "other"), GP_IMAGES_AUTO, "neither .jpg, .jpeg nor .png");
    write_image(t, "flat/a.jpg", jpeg_picture(0, 4, 4));
    refuse_source(temporary_path(t, "flat"), GP_IMAGES_AUTO, "flat' has 1 image but no folders");
    refuse_source(temporary_path(t, "nothing"), GP_IMAGES_AUTO, "there is nothing of that name");
    refuse_source(temporary_path(t, "nothing*.tar"), GP_IMAGES_AUTO, "matches no file");
    refuse_source("", GP_IMAGES_AUTO, "the path of the images is empty");
    refuse_source(temporary_write_text(t, "data.csv", "1,2"), GP_IMAGES_AUTO, "it is not known what kind of images");
    write_tar(t, "x.tar", ARCHIVE_FILTER_NONE, "");
    temporary_write(t, "x.bin", "", 0);
    refuse_source(temporary_path(t, "x.*"), GP_IMAGES_AUTO, "records have 3073 each");
    refuse_source(temporary_path(t, "*"), GP_IMAGES_AUTO, "not known what kind");
    /* A folder that holds itself. */
    temporary_folders(t, "round/class/");
    assert_int_equal(symlink(".", temporary_path(t, "round/class/again")), 0);
    refuse_source(temporary_path(t, "round"), GP_IMAGES_AUTO, "more than 16 deep");
}

static const char *tar_with(temporary *t, const char *member, size_t size) {
    const char *path = temporary_path(t, "bad.tar");
    struct archive *tar = tar_create(path, ARCHIVE_FILTER_NONE);
    char *bytes = calloc(1, size + 1);
    tar_add_image(tar, "cat/good.jpg", jpeg_picture(0, 4, 4));
    tar_add(tar, member, bytes, size);
    free(bytes);
    tar_close(tar);
    return path;
}

static void test_bad_tars(void **state) {
    temporary *t = *state;
    refuse_source(tar_with(t, "/etc/cat/1.jpg", 9), GP_IMAGES_AUTO,
                  "names a member by an absolute path, '/etc/cat/1.jpg'");
    refuse_source(tar_with(t, "cat/../../1.jpg", 9), GP_IMAGES_AUTO, "leaves its folder by \"..\", 'cat/../../1.jpg'");
    refuse_source(tar_with(t, "../x.txt", 9), GP_IMAGES_AUTO, "leaves its folder by \"..\"");
    refuse_source(tar_with(t, "1.jpg", 9), GP_IMAGES_AUTO, "lies in no folder, '1.jpg'");
    char name[600];
    memset(name, 'n', 550);
    snprintf(name + 550, sizeof name - 550, "/1.jpg");
    refuse_source(tar_with(t, name, 9), GP_IMAGES_AUTO, "a folder with a name of 550 bytes");
    refuse_source(temporary_write_text(t, "text.tar", "this is no archive at all"), GP_IMAGES_AUTO, "cannot be read");
    refuse_source(temporary_write(t, "none.tar", "", 0), GP_IMAGES_AUTO, "none.tar' is empty");
    size_t size;
    char *whole = temporary_read(tar_with(t, "cat/2.jpg", 9000), &size);
    refuse_source(temporary_write(t, "cut.tar", whole, 5000), GP_IMAGES_AUTO, "cut.tar' cannot be read");
    free(whole);
    const char *packed = write_tar(t, "whole.tar.gz", ARCHIVE_FILTER_GZIP, "");
    whole = temporary_read(packed, &size);
    refuse_source(temporary_write(t, "cut.tar.gz", whole, size / 2), GP_IMAGES_AUTO, "cut.tar.gz' cannot be read");
    free(whole);
}

/* Links and devices in an archive are passed over. */
static void test_tar_with_links(void **state) {
    temporary *t = *state;
    const char *path = temporary_path(t, "links.tar");
    struct archive *tar = tar_create(path, ARCHIVE_FILTER_NONE);
    tar_add_image(tar, "cat/good.jpg", jpeg_picture(0, 4, 4));
    for (int kind = 0; kind < 3; kind++) {
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, "cat/link.jpg");
        archive_entry_set_filetype(entry, kind == 0 ? AE_IFLNK : kind == 1 ? AE_IFREG : AE_IFIFO);
        if (kind == 0) archive_entry_set_symlink(entry, "/etc/passwd");
        if (kind == 1) archive_entry_set_hardlink(entry, "/etc/passwd");
        assert_int_equal(archive_write_header(tar, entry), ARCHIVE_OK);
        archive_entry_free(entry);
    }
    tar_close(tar);
    gp_collection collection = {0};
    assert_int_equal(gp_collect(&collection, path, GP_IMAGES_AUTO, NULL), GP_OK);
    assert_int_equal(collection.count, 1);
    gp_collection_free(&collection);
}

static void test_bad_plain_files(void **state) {
    temporary *t = *state;
    static uint8_t record[3073];
    record[0] = 10;
    refuse_source(temporary_write(t, "x.bin", record, sizeof record), GP_IMAGES_AUTO, "label 10 in record 0: 0 to 9");
    refuse_source(temporary_write(t, "x.bin", record, 1000), GP_IMAGES_AUTO, "has 1000 bytes: CIFAR-10's records");
    refuse_source(temporary_path(t, "x.bin"), GP_IMAGES_CIFAR100, "records have 3074");
    uint8_t bytes[16 + DIGITS * DIGIT_SIDE * DIGIT_SIDE];
    size_t size = idx_images(bytes);
    const char *images = temporary_write(t, "images-idx3", bytes, size);
    refuse_source(images, GP_IMAGES_AUTO, "labels-idx1' could not be opened");
    temporary_write(t, "labels-idx1", idx_labels, sizeof idx_labels - 1);
    refuse_source(images, GP_IMAGES_AUTO, "labels-idx1' has 5 bytes behind its head, which speaks of 6");
    uint8_t fewer[sizeof idx_labels];
    memcpy(fewer, idx_labels, sizeof fewer);
    fewer[7] = 5;
    temporary_write(t, "labels-idx1", fewer, sizeof fewer - 1);
    refuse_source(images, GP_IMAGES_AUTO, "has 5 labels, but");
    refuse_source(temporary_write(t, "a-idx3", bytes, size), GP_IMAGES_AUTO, "the file of labels");
    refuse_source(temporary_write(t, "images-idx3", bytes, size - 1), GP_IMAGES_AUTO, "behind its head");
    bytes[2] = 13;
    refuse_source(temporary_write(t, "images-idx3", bytes, size), GP_IMAGES_AUTO, "type 0x0D with 3 dimensions");
    bytes[0] = 1;
    refuse_source(temporary_write(t, "images-idx3", bytes, size), GP_IMAGES_IDX, "images-idx3");
    memset(bytes, 255, 16);
    memcpy(bytes, "\0\0\x08\x03", 4);
    refuse_source(temporary_write(t, "images-idx3", bytes, size), GP_IMAGES_AUTO, "a side of 4294967295");
}

/* An archive of zeros that unpacks to thousands of times its size. */
static void test_archive_bomb(void **state) {
    temporary *t = *state;
    const char *path = temporary_path(t, "bomb.tar.zst");
    struct archive *tar = tar_create(path, ARCHIVE_FILTER_ZSTD);
    struct archive_entry *entry = archive_entry_new();
    static const size_t piece = 1 << 20;
    char *zeros = calloc(1, piece);
    assert_non_null(zeros);
    archive_entry_set_pathname(entry, "notes.txt");
    archive_entry_set_size(entry, (la_int64_t)piece * 1500);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(tar, entry), ARCHIVE_OK);
    for (int i = 0; i < 1500; i++)
        assert_int_equal(archive_write_data(tar, zeros, piece), (la_ssize_t)piece);
    archive_entry_free(entry);
    free(zeros);
    tar_add_image(tar, "cat/good.jpg", jpeg_picture(0, 4, 4));
    tar_close(tar);
    refuse_source(path, GP_IMAGES_AUTO, "unpacks to more than");
}

/* ---- class lists ---- */

static void test_class_lists(void **state) {
    temporary *t = *state;
    gp_classes *classes, *loaded;
    const char *path = temporary_path(t, "classes.json");
    static const char *const names[] = {"zoo", "ämter", "a \"quoted\" one"};
    assert_int_equal(gp_classes_create(&classes, names, 3), GP_OK);
    assert_int_equal(gp_classes_save(classes, path), GP_OK);
    assert_int_equal(gp_classes_load(&loaded, path), GP_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(gp_classes_name(loaded, i), names[i]);
        assert_int_equal(gp_classes_find(loaded, names[i]), i);
    }
    assert_int_equal(gp_classes_find(loaded, "zo"), -1);
    assert_string_equal(gp_classes_name(loaded, 3), "");
    gp_classes_destroy(classes);
    gp_classes_destroy(loaded);
    gp_classes_destroy(NULL);
    static const char *const bad[][2] = {
        {"", "is not a list of classes"},
        {"[]", "\"format\""},
        {"{\"format\": \"gpipe classes\", \"version\": 2, \"classes\": [\"a\"]}", "\"version\" is not 1"},
        {"{\"format\": \"gpipe classes\", \"version\": 1, \"classes\": []}", "0 classes are given"},
        {"{\"format\": \"gpipe classes\", \"version\": 1, \"classes\": [1]}", "number 0 of its \"classes\""},
        {"{\"format\": \"gpipe classes\", \"version\": 1, \"classes\": [\"a\", \"a\"]}", "two classes of the name 'a'"},
        {"{\"format\": \"gpipe classes\", \"version\": 1, \"classes\": [\"\"]}", "class 0 has no name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gp_classes_load(&loaded, temporary_write_text(t, "bad.json", bad[i][0])), GP_INVALID);
        assert_message_has(gp_error_message(), bad[i][1]);
        assert_null(loaded);
    }
    assert_int_equal(gp_classes_create(&classes, (const char *const[]){"\xFF"}, 1), GP_INVALID);
    assert_message_has(gp_error_message(), "not UTF-8");
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_folder),
        WITH_FOLDER(test_tar),
        WITH_FOLDER(test_shards),
        WITH_FOLDER(test_names_in_utf8),
        WITH_FOLDER(test_cifar),
        WITH_FOLDER(test_names_of_cifar),
        WITH_FOLDER(test_idx),
        WITH_FOLDER(test_bad_folders),
        WITH_FOLDER(test_bad_tars),
        WITH_FOLDER(test_tar_with_links),
        WITH_FOLDER(test_bad_plain_files),
        WITH_FOLDER(test_archive_bomb),
        WITH_FOLDER(test_class_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
