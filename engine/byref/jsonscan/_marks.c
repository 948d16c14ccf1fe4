/* JSON text read by its brackets, quotes and commas, byte by byte and once; it may be any bytes.

   It is optional. `broken` makes the lines of `values._Lines` of an object's compact JSON, as far as text tells where they begin. Of what
   is no JSON no byte is lost. `structure` is the compiled form of `parsing._structure`. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#define OBJECTS 3 /* that may be nested in each other with members on lines of their own */

/* Where a piece ends: how many such objects are open; whether an array in the last of them is, and has its elements on lines; whether
   the last byte opened what has lines; 1 in a string, 2 behind a backslash; how many arrays and objects are open on the present line. */
typedef struct { int objects, array, opened, string; Py_ssize_t deep; } Place;

static Py_ssize_t broken(Place *at, const char *text, Py_ssize_t size, char *out, Py_ssize_t *feeds) {
    char *to = out;
    for (Py_ssize_t i = 0; i < size; i++) {
        char c = text[i];
        if (at->string) {
            *to++ = c;
            at->string = at->string == 2 ? 1 : c == '\\' ? 2 : c != '"';
            continue;
        }
        int closes = c == '}' || c == ']';
        if (at->opened && !closes) *to++ = '\n', ++*feeds;
        if (closes && at->deep) at->deep--;
        else if (closes) {
            if (!at->opened) *to++ = '\n', ++*feeds;
            if (at->array) at->array = 0; else if (at->objects) at->objects--;
        }
        at->opened = 0;
        *to++ = c;
        if (c == '"') at->string = 1;
        else if (c == ',' && !at->deep) *to++ = '\n', ++*feeds;
        else if (c == '{' || c == '[') {
            if (at->deep || at->array || (c == '{' && at->objects == OBJECTS)) at->deep++;
            else { at->opened = 1; if (c == '{') at->objects++; else at->array = 1; }
        }
    }
    return to - out;
}

static PyObject *break_piece(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Place at;
    const char *text;
    Py_ssize_t size, feeds = 0;
    if (!PyArg_ParseTuple(arguments, "y#(iiiin)", &text, &size, &at.objects, &at.array, &at.opened, &at.string, &at.deep)) return NULL;
    char *out = size < PY_SSIZE_T_MAX / 3 ? malloc((size_t)(3 * size + 1)) : NULL; /* at most two line feeds for each byte */
    if (!out) return PyErr_NoMemory();
    Py_ssize_t made = broken(&at, text, size, out, &feeds);
    PyObject *result = Py_BuildValue("y#n(iiiin)", out, made, feeds, at.objects, at.array, at.opened, at.string, at.deep);
    free(out);
    return result;
}

/* Of the commas in the last `window` bytes, the last of the least deep ones; if there is none, the last one at all. */
static PyObject *structure(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *text;
    Py_ssize_t size, window, comma = -1, quote = -1, least = 0, out = 0, height = 0, out_there = 0, height_there = 0;
    if (!PyArg_ParseTuple(arguments, "y#n", &text, &size, &window)) return NULL;
    char *open = malloc((size_t)size + 1);
    if (!open) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < size; i++) {
        char c = text[i];
        if (quote >= 0) {
            if (c == '\\') i++; else if (c == '"') quote = -1;
        } else if (c == '"') quote = i;
        else if (c == '{' || c == '[') open[height++] = c;
        else if (c == '}' || c == ']') { if (height) height--; else out++; }
        else if (c == ',' && (comma < 0 || comma < size - window || height - out <= least))
            comma = i, least = height - out, out_there = out, height_there = height;
    }
    /* What was open at the comma still is in `open`: in JSON a bracket that opens where one was closed has a comma before it. */
    PyObject *result = Py_BuildValue("nnny#", comma, quote, comma < 0 ? out : out_there, open, comma < 0 ? height : height_there);
    free(open);
    return result;
}

static PyMethodDef functions[] = {
    {"broken", break_piece, METH_VARARGS, "Return a piece of an object's JSON in lines, its line feeds, and where it ends."},
    {"structure", structure, METH_VARARGS, "Return where a block may be cut, or -1; its open string, or -1; brackets closed and opened."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_marks", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__marks(void) { return PyModule_Create(&definition); }
