/*
 * The import child's side for models: tells the format by content, imports, and answers the graph's byte
 * form. Formats that are known but not supported get a refusal that says what the file is.
 */
#include "server/import/child.h"

#include "server/base/sandbox.h"
#include "server/import/import.h"
#include "server/import/tflite.h"
#include "server/import/tflite_schema.h"

#include <string.h>

/* How files of other formats begin. */
struct magic {
    const char *bytes;
    size_t size, at;
    const char *what;
};

static const struct magic magics[] = {
    {"\x89PNG", 4, 0, "a PNG image"},
    {"\xff\xd8\xff", 3, 0, "a JPEG image"},
    {"PK\x03\x04", 4, 0, "a ZIP archive (a Keras or PyTorch file?)"},
    {"\x89HDF\r\n", 6, 0, "an HDF5 file (Keras)"},
    {"\x1f\x8b", 2, 0, "a gzip archive"},
    {"ORTM", 4, 4, "an ONNX Runtime model"},
    {"GGUF", 4, 0, "a GGUF file"},
    {"{", 1, 0, "JSON"},
};

/* ONNX has no identifier: a protobuf message that starts with its ir_version and a producer or an opset. */
static bool looks_like_onnx(const unsigned char *bytes, size_t size)
{
    return size > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 &&
           (bytes[2] == 0x12 || bytes[2] == 0x1a || bytes[2] == 0x3a || bytes[2] == 0x42 || bytes[2] == 0x22);
}

static int refuse_format(const unsigned char *bytes, size_t size, struct error *error)
{
    if (looks_like_onnx(bytes, size))
        return error_set(error, STATUS_MODEL_UNSUPPORTED,
                         "this looks like an ONNX model; ONNX is not supported yet, TensorFlow Lite is");
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (size >= magics[i].at + magics[i].size &&
            !memcmp(bytes + magics[i].at, magics[i].bytes, magics[i].size))
            return error_set(error, STATUS_MODEL_UNSUPPORTED, "this is %s, not a TensorFlow Lite model",
                             magics[i].what);
    return error_set(error, STATUS_MODEL_MALFORMED,
                     "this is not a TensorFlow Lite model (no TFL3 identifier at byte 4)");
}

int import_child_model(const unsigned char *input, size_t size, const char *name, unsigned char **answer,
                       size_t *answer_size, struct error *error)
{
    if (size < 8 || memcmp(input + 4, TFLITE_IDENTIFIER, 4) != 0)
        return refuse_format(input, size, error);
    struct graph *graph = import_tflite(input, size, name, error);
    if (!graph)
        return error->status;
    int status = graph_write(graph, answer, answer_size, error);
    graph_free(graph);
    return status;
}

int sandbox_child_main(int argc, char **argv)
{
    static const struct sandbox_role roles[] = {{"model", import_child_model}, {"image", import_child_image}};
    return sandbox_child(argc, argv, roles, sizeof roles / sizeof *roles);
}
