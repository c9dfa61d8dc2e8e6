/*
 * Makes the digit reader: `train_digits DIGITS MODELS SAMPLES`, called by scripts/train-digits. DIGITS holds
 * 0.json to 9.json; MODELS gets digits.tflite and digits.labels, SAMPLES digit_0.png to digit_9.png: of each
 * digit the first picture that was held out. Prints the accuracy on all that were held out, of the float
 * network and of the written file by the reference executor; exits with 1 when the latter is below 98 %.
 */
#include "server/base/file.h"
#include "server/import/tflite.h"
#include "server/model/reference.h"
#include "tests/support/image_file.h"
#include "tests/support/tflite_write.h"
#include "tools/digits/digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 24, WARM_UP = 400, CALIBRATION = 1024 };

static const double threshold = 0.98;
static float pictures[BATCH][PIXELS];

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "train_digits: %s\n", what);
    exit(1);
}

static void shuffle(struct digit_set *set, struct prng *prng)
{
    for (int32_t i = set->n - 1; i > 0; i--) {
        int32_t k = prng_range(prng, 0, i);
        struct digit kept = set->digits[i];
        set->digits[i] = set->digits[k];
        set->digits[k] = kept;
    }
}

static void load(const struct digit_set *set, int32_t first, int32_t n, struct prng *jitter,
                 int32_t labels[BATCH])
{
    for (int32_t i = 0; i < n; i++) {
        digits_picture(&set->digits[first + i], jitter, pictures[i]);
        labels[i] = set->digits[first + i].label;
    }
}

/* Rises over the first steps, then falls along a half cosine. */
static float rate_at(int32_t step, int32_t steps)
{
    const float most = 1.5e-3f, pi = 3.14159265f;
    if (step < WARM_UP)
        return most * (float)(step + 1) / WARM_UP;
    return most * 0.5f * (1.0f + cosf(pi * (float)(step - WARM_UP) / (float)(steps - WARM_UP)));
}

static void train(struct net *net, struct digit_set *training, struct prng *prng)
{
    int32_t labels[BATCH], batches = training->n / BATCH, step = 0;
    shuffle(training, prng);
    load(training, 0, BATCH, prng, labels);
    net_settle(net, pictures);
    for (int32_t epoch = 0; epoch < EPOCHS; epoch++) {
        double sum = 0;
        shuffle(training, prng);
        for (int32_t k = 0; k < batches; k++, step++) {
            load(training, k * BATCH, BATCH, prng, labels);
            net_forward(net, pictures, BATCH);
            sum += net_learn(net, labels, rate_at(step, EPOCHS * batches));
        }
        printf("epoch %2d of %d: loss %.4f\n", epoch + 1, EPOCHS, sum / batches);
        (void)fflush(stdout);
    }
}

static int32_t right_in_float(struct net *net, const struct digit_set *set)
{
    int32_t right = 0, labels[BATCH], n;
    for (int32_t first = 0; first < set->n; first += n) {
        n = set->n - first < BATCH ? set->n - first : BATCH;
        load(set, first, n, NULL, labels);
        net_forward(net, pictures, n);
        const float *logits = net->layers[net->n - 1].out;
        for (int32_t i = 0; i < n; i++, logits += CLASSES) {
            int32_t top = 0;
            for (int32_t c = 1; c < CLASSES; c++)
                top = logits[c] > logits[top] ? c : top;
            right += top == labels[i];
        }
    }
    return right;
}

static int32_t right_in_int8(const struct graph *graph, const struct digit_set *set)
{
    int32_t right = 0;
    struct error error;
    error_clear(&error);
    for (int32_t i = 0; i < set->n; i++) {
        int8_t in[PIXELS], out[CLASSES];
        int32_t top = 0;
        for (int32_t k = 0; k < PIXELS; k++)
            in[k] = (int8_t)(set->digits[i].pixels[k] - 128);
        if (reference_run(graph, in, sizeof in, out, sizeof out, &error) < 0)
            fail(error.message);
        for (int32_t c = 1; c < CLASSES; c++)
            top = out[c] > out[top] ? c : top;
        right += top == set->digits[i].label;
    }
    return right;
}

/* Ranges over pictures that training saw, as they are. */
static void calibrate(struct net *net, const struct digit_set *training, struct layer_range *ranges)
{
    int32_t labels[BATCH];
    for (int32_t l = 0; l < net->n; l++)
        ranges[l] = (struct layer_range){0, 0};
    for (int32_t first = 0; first + BATCH <= CALIBRATION; first += BATCH) {
        load(training, first, BATCH, NULL, labels);
        net_forward(net, pictures, BATCH);
        for (int32_t l = 1; l < net->n; l++) {
            const struct layer *layer = &net->layers[l];
            for (int32_t i = 0; i < BATCH * layer->side * layer->side * layer->channels; i++) {
                ranges[l].low = fminf(ranges[l].low, layer->out[i]);
                ranges[l].high = fmaxf(ranges[l].high, layer->out[i]);
            }
        }
    }
}

static void put(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[1024];
    struct error error;
    error_clear(&error);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_write(path, bytes, size, 0644, &error) < 0)
        fail(error.message);
}

static void put_samples(const char *folder, const struct digit_set *held_out)
{
    for (int32_t label = 0, i = 0; label < CLASSES; label++) {
        char name[32];
        struct bytes png;
        while (i < held_out->n && held_out->digits[i].label != label)
            i++;
        if (i == held_out->n)
            fail("a digit is missing");
        image_file_png(held_out->digits[i].pixels, SIDE, SIDE, 1, &png);
        (void)snprintf(name, sizeof name, "digit_%d.png", label);
        put(folder, name, png.data, png.size);
        bytes_free(&png);
    }
}

/* Writes the model and returns what an importer makes of the file. */
static struct graph *put_model(const char *folder, struct graph *graph)
{
    struct bytes file;
    struct error error;
    error_clear(&error);
    const char *reason = tflite_write(graph, NULL, &file);
    if (reason)
        fail(reason);
    put(folder, "digits.tflite", file.data, file.size);
    put(folder, "digits.labels", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", 2 * CLASSES);
    struct graph *again = import_tflite(file.data, file.size, "digits", &error);
    if (!again)
        fail(error.message);
    printf("digits.tflite has %zu bytes\n", file.size);
    bytes_free(&file);
    return again;
}

int main(int argc, char **argv)
{
    struct digit_set training, held_out;
    struct layer_range ranges[LAYERS_MAX];
    struct prng prng = prng_seed(28);
    if (argc != 4) {
        (void)fprintf(stderr, "usage: train_digits DIGITS MODELS SAMPLES\n");
        return 2;
    }
    const char *wrong = digits_read(argv[1], &training, &held_out);
    if (wrong)
        fail(wrong);
    struct net *net = net_new(&prng);
    printf("%d digits to learn from, %d held out; %d weights\n", training.n, held_out.n, net_weights(net));
    put_samples(argv[3], &held_out);
    train(net, &training, &prng);
    calibrate(net, &training, ranges);
    struct graph *graph = quantize_net(net, ranges), *written = put_model(argv[2], graph);
    int32_t in_float = right_in_float(net, &held_out), in_int8 = right_in_int8(written, &held_out);
    double accuracy = (double)in_int8 / held_out.n;
    printf("on the digits held out: float %d of %d (%.2f %%), int8 %d of %d (%.2f %%)\n", in_float,
           held_out.n, 100.0 * in_float / held_out.n, in_int8, held_out.n, 100.0 * accuracy);
    graph_free(written);
    graph_free(graph);
    net_free(net);
    digits_free(&training);
    digits_free(&held_out);
    if (accuracy < threshold)
        fail("the int8 model is below 98 %");
    return 0;
}
