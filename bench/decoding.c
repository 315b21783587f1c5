/* How fast images become samples, on one core: from an archive or folder (for instance CIFAR-10 as a tar of JPEG
 * files), and from JPEG files of 500 x 375 pixels that are made here, as large as ImageNet's are on average. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "common.h"

enum { BATCH = 64, LARGE = 48 };

typedef struct measurement {
    const char *what;
    double per_second; /* images, on one core */
} measurement;

/* Of this process, which has one thread: a busy machine changes the wall's time, not this one. */
static double processor_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static double measure(const gp_image_options *options, double seconds) {
    gp_dataset *dataset;
    gp_batch batch;
    int64_t made = 0;
    bench_check(gp_dataset_create_images(&dataset, options), "dataset");
    bench_check(gp_batch_create(&batch, dataset, BATCH), "batch");
    bench_check(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, 0, 0, BATCH, &batch), "sample");
    double begun = processor_seconds(), now = begun;
    for (int64_t step = 1; now - begun < seconds; step++, made += BATCH, now = processor_seconds())
        bench_check(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 0, BATCH, &batch), "sample");
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
    return (double)made / (now - begun);
}

static gp_image_options options_of(const char *path, int64_t side, gp_crop crop) {
    return (gp_image_options){.images = path,
                              .height = side,
                              .width = side,
                              .channels = 3,
                              .batch = BATCH,
                              .augmentation = {.crop = crop, .flip = true}};
}

/* A picture with as much detail as photographs have: about 100 KB at quality 90. */
static void write_jpeg(const char *path, unsigned number) {
    enum { WIDTH = 500, HEIGHT = 375 };
    static unsigned char pixels[WIDTH * HEIGHT * 3];
    unsigned state = 12345 + number;
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) {
        state = state * 1664525u + 1013904223u;
        int x = i / 3 % WIDTH, y = i / 3 / WIDTH, wave = (x * (int)(3 + number % 5) + y * 2 + 40 * (i % 3)) % 400;
        pixels[i] = (unsigned char)(30 + abs(wave - 200) + (int)(state >> 27));
    }
    tjhandle handle = tjInitCompress();
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    FILE *file = fopen(path, "wb");
    bool good = handle && file &&
                tjCompress2(handle, pixels, WIDTH, 0, HEIGHT, TJPF_RGB, &bytes, &size, TJSAMP_420, 90, 0) == 0 &&
                fwrite(bytes, 1, size, file) == size;
    if (!file || fclose(file) != 0 || !good) {
        fprintf(stderr, "bench-decoding: %s could not be written\n", path);
        exit(1);
    }
    tjFree(bytes);
    tjDestroy(handle);
}

/* Two classes of them in a temporary folder, which is removed when `remove_them`. */
static void handle_large(const char *folder, bool remove_them) {
    char path[512];
    for (unsigned i = 0; i < LARGE; i++) {
        snprintf(path, sizeof path, "%s/c%u", folder, i % 2);
        if (!remove_them) mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/c%u/%u.jpg", folder, i % 2, i);
        if (remove_them) {
            unlink(path);
        } else {
            write_jpeg(path, i);
        }
    }
    for (unsigned c = 0; remove_them && c < 2; c++) {
        snprintf(path, sizeof path, "%s/c%u", folder, c);
        rmdir(path);
    }
    if (remove_them) rmdir(folder);
}

static size_t measure_large(measurement *found, double seconds) {
    char folder[] = "/tmp/gpipe-decoding-XXXXXX";
    if (!mkdtemp(folder)) {
        fprintf(stderr, "bench-decoding: %s could not be created\n", folder);
        exit(1);
    }
    handle_large(folder, false);
    gp_image_options random = options_of(folder, 224, GP_CROP_RESIZED),
                     middle = options_of(folder, 224, GP_CROP_CENTRE);
    gp_image_options small = options_of(folder, 64, GP_CROP_RESIZED);
    found[0] = (measurement){"500x375 JPEG, resized crop of 224", measure(&random, seconds)};
    found[1] = (measurement){"500x375 JPEG, middle of 224", measure(&middle, seconds)};
    found[2] = (measurement){"500x375 JPEG, resized crop of 64", measure(&small, seconds)};
    handle_large(folder, true);
    return 3;
}

static void print_json(const measurement *found, size_t number) {
    printf("{\"bench\": \"decoding\", \"rows\": [");
    for (size_t i = 0; i < number; i++)
        printf("%s{\"what\": \"%s\", \"images_per_second_per_core\": %.1f}", i ? ", " : "", found[i].what,
               found[i].per_second);
    printf("]}\n");
}

static const char usage[] = "[--seconds=2] [--json] [PATH SIDE]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-decoding", usage);
    double seconds = bench_option(count, arguments, "seconds", 2);
    bool json = bench_flag(count, arguments, "json");
    measurement found[8];
    size_t number = 0;
    for (int i = 1; i + 1 < count; i++) {
        if (arguments[i][0] == '-') continue;
        int64_t side = atoi(arguments[i + 1]);
        gp_image_options options = options_of(arguments[i], side, GP_CROP_PAD);
        found[number++] = (measurement){"the given images, shifted and flipped", measure(&options, seconds)};
        break;
    }
    number += measure_large(found + number, seconds);
    if (json) {
        print_json(found, number);
        return 0;
    }
    bench_print_machine();
    for (size_t i = 0; i < number; i++)
        printf("%-40s %9.0f images/s\n", found[i].what, found[i].per_second);
    return 0;
}
