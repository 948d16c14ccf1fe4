/* The compiled form of `values._Lines` for an object: its compact JSON, broken into the same lines.

   It is optional. `values.py` is the reference, and writes what this form cannot tell from text: values of types that are written as
   arrays or objects and are none.

   A piece is read once, byte by byte, and may be any bytes: what is no JSON is broken at other places, and none is lost. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdlib.h>

#define OBJECTS 3 /* that may be nested in each other with members on lines of their own */

/* Where a piece ends: how many such objects are open; whether an array in the last of them is, and has its elements on lines; how many
   arrays and objects are open on the present line; whether the last byte opened what has lines; 1 in a string, 2 behind a backslash. */
typedef struct { int objects, array, deep, opened, string; } Place;

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
            if (at->deep || at->array || (c == '{' && at->objects == OBJECTS)) at->deep += at->deep < INT_MAX;
            else if (c == '{') at->objects++, at->opened = 1;
            else at->array = at->opened = 1;
        }
    }
    return to - out;
}

static PyObject *break_piece(PyObject *module, PyObject *arguments) {
    Place at;
    const char *text;
    Py_ssize_t size, feeds = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#(iiiii)", &text, &size, &at.objects, &at.array, &at.deep, &at.opened, &at.string)) return NULL;
    if (size > PY_SSIZE_T_MAX / 3) return PyErr_NoMemory();
    char *out = malloc((size_t)(3 * size + 1)); /* a byte has a line feed before and behind it at most */
    if (!out) return PyErr_NoMemory();
    Py_ssize_t made = broken(&at, text, size, out, &feeds);
    PyObject *result = Py_BuildValue("y#n(iiiii)", out, made, feeds, at.objects, at.array, at.deep, at.opened, at.string);
    free(out);
    return result;
}

static PyMethodDef functions[] = {
    {"broken", break_piece, METH_VARARGS, "Return a piece of an object's JSON in lines, its line feeds, and where it ends."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_lines", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__lines(void) { return PyModule_Create(&definition); }
