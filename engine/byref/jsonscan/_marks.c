/* JSON text read by its brackets, quotes and commas, byte by byte and once; it may be any bytes.

   It is optional. `broken` makes the lines of `values._Lines` of an object's compact JSON, as far as text tells where they begin. Of what
   is no JSON no byte is lost. `structure` is the compiled form of `parsing._structure`. `forms` tells which elements of an array teach the
   same (`groups.py`). No format has a `#`: what a Python from 3.13 on compiles of that, older ones refuse, which run the same wheel. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 3 /* that may be nested in each other with members on lines of their own */

/* Where a piece ends: how many such objects are open; whether an array in the last of them is, and has its elements on lines; whether
   the last byte opened what has lines; 1 in a string, 2 behind a backslash; whether NaN or Infinity, which JSON lacks, was there; how
   many arrays and objects are open on the present line. */
typedef struct { int objects, array, opened, string, constant; Py_ssize_t deep; } Place;

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
        if (at->opened ? !closes : closes && !at->deep) *to++ = '\n', ++*feeds;
        if (closes) { if (at->deep) at->deep--; else if (at->array) at->array = 0; else if (at->objects) at->objects--; }
        at->opened = 0;
        *to++ = c;
        if (c == '"') at->string = 1;
        else if (c == ',' && !at->deep) *to++ = '\n', ++*feeds;
        else if (c == '{' || c == '[') {
            if (at->deep || at->array || (c == '{' && at->objects == OBJECTS)) at->deep++;
            else { at->opened = 1; if (c == '{') at->objects++; else at->array = 1; }
        } else if (c == 'N' || c == 'I') at->constant = 1;
    }
    return to - out;
}

static PyObject *break_piece(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Place at;
    PyObject *piece;
    char *text;
    Py_ssize_t size, feeds = 0;
    if (!PyArg_ParseTuple(arguments, "S(iiiiin)", &piece, &at.objects, &at.array, &at.opened, &at.string, &at.constant, &at.deep) ||
        PyBytes_AsStringAndSize(piece, &text, &size)) return NULL;
    char *out = size < PY_SSIZE_T_MAX / 3 ? malloc((size_t)(3 * size + 1)) : NULL; /* at most two line feeds for each byte */
    if (!out) return PyErr_NoMemory();
    Py_ssize_t made = broken(&at, text, size, out, &feeds);
    piece = PyBytes_FromStringAndSize(out, made); /* `Py_BuildValue` takes NULL for an error that is set */
    PyObject *result = Py_BuildValue("Nn(iiiiin)", piece, feeds, at.objects, at.array, at.opened, at.string, at.constant, at.deep);
    free(out);
    return result;
}

/* Of the commas in the last `window` bytes, the last of the least deep ones; if there is none, the last one at all. */
static PyObject *structure(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *block;
    char *text;
    Py_ssize_t size, window, comma = -1, quote = -1, least = 0, out = 0, height = 0, out_there = 0, height_there = 0;
    if (!PyArg_ParseTuple(arguments, "Sn", &block, &window) || PyBytes_AsStringAndSize(block, &text, &size)) return NULL;
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
    block = PyBytes_FromStringAndSize(open, comma < 0 ? height : height_there);
    PyObject *result = Py_BuildValue("nnnN", comma, quote, comma < 0 ? out : out_there, block);
    free(open);
    return result;
}

#define LEVELS 100 /* of an element, the most; a number has fewer than DIGITS digits in a row: Python reads what has more */
#define DIGITS 300
enum { NUL = 1, BOOLEAN = 2, INTEGER = 4, NUMBER = 8, STRING = 16, ARRAY = 32, BITS = 6 };
#define HASHED (UINT64_C(1) << 63)

/* `secret` makes nobody able to write two elements that differ and are taken for one. `members` counts those of all objects. */
typedef struct { const unsigned char *at, *end; uint64_t secret; Py_ssize_t members; } Text;

static uint64_t mixed(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static void skip(Text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\r' || *t->at == '\t')) t->at++;
}

static int comes(Text *t, const char *marks) { return t->at < t->end && *t->at && strchr(marks, *t->at); }

static int word(Text *t, const char *word, int kind) {
    for (; *word; word++, t->at++)
        if (t->at >= t->end || *t->at != *word) return 0;
    return kind;
}

/* Go behind a string; 0 if there is none. */
static int string(Text *t) {
    if (!word(t, "\"", STRING)) return 0;
    for (; t->at < t->end && *t->at > 31; t->at++) {
        if (*t->at == '"') return t->at++, STRING;
        if (*t->at != '\\') continue;
        if (t->at++, !comes(t, "\"\\/bfnrtu")) return 0;
        for (int i = *t->at == 'u' ? 4 : 0; i; i--)
            if (t->at++, !comes(t, "0123456789abcdefABCDEF")) return 0;
    }
    return 0;
}

static int digits(Text *t, int kind) {
    const unsigned char *from = t->at;
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') t->at++;
    return t->at > from && t->at - from < DIGITS ? kind : 0;
}

static int number(Text *t) {
    t->at += comes(t, "-");
    int kind = comes(t, "0") ? t->at++, INTEGER : digits(t, INTEGER);
    if (kind && comes(t, ".")) t->at++, kind = digits(t, NUMBER);
    if (kind && comes(t, "eE")) t->at++, t->at += comes(t, "+-"), kind = digits(t, NUMBER);
    return kind;
}

static uint64_t hashed(const unsigned char *at, const unsigned char *end, uint64_t hash) {
    uint64_t last = (uint64_t)(end - at);
    for (; end - at > 8; at += 8) hash = mixed(hash, last), memcpy(&last, at, 8);
    hash = mixed(hash, last), last = 0, memcpy(&last, at, (size_t)(end - at));
    return mixed(hash, last);
}

/* A number for what reading a value would teach, whatever order its keys have; 0 if it is no JSON, or Python has to read it. Of a scalar
   it is its kind. Of an array without objects, ten levels deep at most, it is ARRAY and behind that all kinds of its items, so that it does
   not matter how many there are. Of other values it is a hash. */
static uint64_t form(Text *t, int levels) {
    unsigned char open = t->at < t->end ? *t->at : 0, close = open == '{' ? '}' : ']';
    if (open == '"') return (uint64_t)string(t);
    if (open == 't') return (uint64_t)word(t, "true", BOOLEAN);
    if (open == 'f') return (uint64_t)word(t, "false", BOOLEAN);
    if (open == 'n') return (uint64_t)word(t, "null", NUL);
    if (open != '{' && open != '[') return (uint64_t)number(t);
    if (!levels) return 0;
    uint64_t sum = 0, kinds = 0, hash = 0, length = 0, is_hashed = open == '{' || levels == LEVELS;
    t->at++, skip(t);
    for (int is_first = 1; !comes(t, "]}") || !is_first; is_first = 0, length++) {
        if (open == '{') {
            const unsigned char *key = t->at;
            if (!string(t)) return 0;
            hash = hashed(key, t->at, t->secret);
            skip(t), t->members++;
            if (!word(t, ":", 1)) return 0;
            skip(t);
        }
        uint64_t below = form(t, levels - 1);
        if (!below) return 0;
        if (open == '[' && below < HASHED) kinds |= below; else sum += mixed(hash, below), is_hashed = 1; /* a sum has no order */
        skip(t);
        if (!comes(t, ",")) break;
        t->at++, skip(t);
    }
    if (!word(t, open == '{' ? "}" : "]", 1)) return 0;
    if (!is_hashed && kinds < HASHED >> BITS) return ARRAY | kinds << BITS;
    sum += mixed(kinds ^ t->secret, levels == LEVELS ? length + 1 : 0); /* of a row the length tells something, too */
    return mixed(sum, t->secret ^ close) | HASHED;
}

/* Count elements of one form, the latest of which is in the text between two places; an example is kept of a new form. */
static int count(PyObject *counts, PyObject *examples, uint64_t form, Py_ssize_t more, Py_ssize_t start, Py_ssize_t end,
                 Py_ssize_t members) {
    PyObject *key = PyLong_FromUnsignedLongLong(form), *known = key ? PyDict_GetItemWithError(counts, key) : NULL, *now, *one = NULL;
    now = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(more + (known ? PyLong_AsSsize_t(known) : 0));
    int failed = !now || PyDict_SetItem(counts, key, now);
    if (!failed && !known) failed = !(one = Py_BuildValue("(nnn)", start, end, members)) || PyList_Append(examples, one);
    Py_XDECREF(key), Py_XDECREF(now), Py_XDECREF(one);
    return failed;
}

/* Keep the JSON of a member's key, and go behind its colon. */
static int key(Text *t, PyObject *keys) {
    const char *from = (const char *)t->at;
    PyObject *one = string(t) ? PyBytes_FromStringAndSize(from, (const char *)t->at - from) : NULL;
    int is_kept = one && !PyList_Append(keys, one);
    Py_XDECREF(one), skip(t);
    return is_kept && word(t, ":", 1) && (skip(t), 1);
}

/* Read elements of an array, or members of an object if there is a list for their `keys`, from one place on to the first one behind
   `stop`. */
static PyObject *forms(PyObject *Py_UNUSED(module), PyObject *arguments) {
    char *text;
    Py_ssize_t size, at, stop, most, more = 0, start = 0, end = 0, members = 0, first = -1, has_ended = 0;
    unsigned long long secret, last = 0;
    PyObject *bytes, *counts, *examples, *keys;
    Text t = {0};
    if (!PyArg_ParseTuple(arguments, "SnnnKO!O!O", &bytes, &at, &stop, &most, &secret, &PyDict_Type, &counts, &PyList_Type,
                          &examples, &keys) || PyBytes_AsStringAndSize(bytes, &text, &size)) return NULL;
    int is_map = PyList_Check(keys);
    for (t.secret = secret; at < stop && !has_ended;) {
        Py_ssize_t before = t.members;
        t.at = (const unsigned char *)text + at, t.end = t.at + (size - at < most ? size - at : most);
        uint64_t now = at < size && (!is_map || key(&t, keys)) ? (at = (const char *)t.at - text, form(&t, LEVELS)) : 0;
        if (!now) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
        if (now != last && more && count(counts, examples, last, more, start, end, members)) return NULL;
        if (now != last) last = now, more = 0, start = at, members = t.members - before, end = (const char *)t.at - text;
        if (first < 0) first = (const char *)t.at - text;
        more++, skip(&t);
        if (!comes(&t, is_map ? ",}" : ",]")) Py_RETURN_NONE;
        if (*t.at == ',') t.at++, skip(&t); else has_ended = 1;
        at = (const char *)t.at - text;
    }
    if (more && count(counts, examples, last, more, start, end, members)) return NULL;
    return Py_BuildValue("nnnn", at, first, t.members, has_ended);
}

static PyMethodDef functions[] = {
    {"broken", break_piece, METH_VARARGS, "Return a piece of an object's JSON in lines, its line feeds, and where it ends."},
    {"structure", structure, METH_VARARGS, "Return where a block may be cut, or -1; its open string, or -1; brackets closed and opened."},
    {"forms", forms, METH_VARARGS, "Count elements by their forms; return where all and the first of them end, and their members."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_marks", NULL, -1, functions, NULL, NULL, NULL, NULL};
/* VERSION becomes another number, here and where the module is loaded, when a function takes or returns something else. */
PyMODINIT_FUNC PyInit__marks(void) { PyObject *m = PyModule_Create(&def); return m && PyModule_AddIntConstant(m, "VERSION", 3) ? 0 : m; }
