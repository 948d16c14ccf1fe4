/* The compiled form of `columns.Inference.read`: the same nodes, decided in the same order, about ten times as fast.

   It is optional. `columns.py` is the reference, and reads whatever this form leaves to it: `read` returns None for a value with
   any type but JSON's own, with a float that is not finite, or that nests too deeply. So no error has to be worded here.

   As there, the values of one place are read together, as a column, and the items of arrays by `chunk`. Scalars are noted where
   they are met; a column holds only arrays and objects. It owns them, because other threads run in between (`breathe`), which may
   empty the dict that they were in. Recursion is over levels, not over values, and ends at `deepest`. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUL = 1, BOOLEAN = 2, INTEGER = 4, NUMBER = 8, STRING = 16, ARRAY = 32, OBJECT = 64, CONTAINER = 96 };
enum { GOOD, ODD, MEMORY };        /* what `Reading.state` says: go on; Python has to read it; there is no memory */
#define BREATH 200000              /* members and items after which other threads get their turn: about three milliseconds */
#define LENGTHS 4                  /* levels at which lengths of arrays are measured: see `Outline._measure` */
#define FIXED 7                    /* elements of what a node says, before its members */

typedef struct Node Node;
typedef struct {
    PyObject *key;
    Node *node;        /* NULL if the key was folded */
    size_t count;      /* of the objects that have it */
    /* of the objects that are read at once: */
    size_t now;        /* how many have it */
    size_t containers; /* how many of its values are arrays or objects; then, where the next of them goes */
    int kinds, last;   /* the kinds of its scalars; the kind of its last value */
} Member;

struct Node {
    Node *made_before;
    Node *items, *rest;
    Member *members;
    PyObject *numbers; /* of the members, by their keys */
    size_t count, room, indexed, folded, objects;
    int kinds, arrays_first, is_cut, has_counts;
};

typedef struct { PyObject *value; size_t member; int kind; } Value; /* `value` is NULL for a scalar */

typedef struct {
    Node *made;
    PyObject **column; /* a stack of the columns that are being read, which it owns */
    size_t height, column_room;
    size_t work, map_keys, wide_keys, few_objects, chunk;
    int state, plain, fold, deepest, folded, is_cut;
} Reading;

static int add(Reading *r, Node *node, size_t from, size_t count, int depth);

static Node *make(Reading *r) {
    Node *node = calloc(1, sizeof *node);
    if (node) node->made_before = r->made; else r->state = MEMORY;
    return node ? r->made = node : NULL;
}

/* Room for one more element; NULL, and `state` says so, where there is no memory. */
static void *grown(Reading *r, void *array, size_t count, size_t *room, size_t size) {
    if (count < *room) return array;
    size_t wider = *room ? 2 * *room : 8;
    void *new = wider > SIZE_MAX / size ? NULL : realloc(array, wider * size);
    if (new) *room = wider; else r->state = MEMORY;
    return new;
}

static int push(Reading *r, PyObject *value) {
    PyObject **column = grown(r, r->column, r->height, &r->column_room, sizeof *column);
    if (!column) return -1;
    (r->column = column)[r->height++] = Py_NewRef(value);
    return 0;
}

static void drop(Reading *r, size_t height) { while (r->height > height) Py_DECREF(r->column[--r->height]); }

/* The kind of a value; 0, and `state` says so, if Python has to read it. */
static inline int kind_of(Reading *r, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type) return STRING;
    if (type == &PyDict_Type) return OBJECT;
    if (type == &PyList_Type) return ARRAY;
    if (type == &PyLong_Type) return INTEGER;
    if (type == &PyBool_Type) return BOOLEAN;
    if (value == Py_None) return NUL;
    if (type == &PyFloat_Type && (r->plain || isfinite(PyFloat_AsDouble(value)))) return NUMBER;
    r->state = ODD;
    return 0;
}

static void breathe(Reading *r) {
    if (r->work < BREATH) return;
    r->work = 0;
    Py_BEGIN_ALLOW_THREADS Py_END_ALLOW_THREADS
}

/* The number of the member with a key, which is made if there is none. `hint` is where it is likely to be. SIZE_MAX is an error.
   Of the first object of a node, as most maps are, each key is new. */
static size_t member_of(Reading *r, Node *node, PyObject *key, size_t hint, int is_first) {
    if (hint < node->count && node->members[hint].key == key) return hint;
    if (Py_TYPE(key) != &PyUnicode_Type) { r->state = ODD; return SIZE_MAX; }
    PyObject *number = NULL;
    if (!is_first && !node->numbers) node->numbers = PyDict_New();
    for (; node->numbers && node->indexed < node->count; node->indexed++, Py_DECREF(number)) {
        if (!(number = PyLong_FromSize_t(node->indexed))) break;
        if (PyDict_SetItem(node->numbers, node->members[node->indexed].key, number)) r->state = MEMORY;
    }
    number = is_first || !node->numbers ? NULL : PyDict_GetItemWithError(node->numbers, key);
    if (number) return PyLong_AsSize_t(number);
    Member *members = is_first || node->numbers ? grown(r, node->members, node->count, &node->room, sizeof *members) : NULL;
    if (!members || PyErr_Occurred()) { r->state = MEMORY; return SIZE_MAX; }
    (node->members = members)[node->count] = (Member){.key = Py_NewRef(key)};
    return node->count++;
}

/* Read values that come one after the other, as the items of arrays do, by chunks. */
typedef struct { Node *node; size_t from, seen; int depth; } Chunks;

static int end_of(Reading *r, Chunks *chunks) {
    int failed = add(r, chunks->node, chunks->from, r->height - chunks->from, chunks->depth);
    drop(r, chunks->from), chunks->seen = 0;
    return failed;
}

static int next_of(Reading *r, Chunks *chunks, PyObject *value, int kind) {
    if (kind & CONTAINER && push(r, value)) return -1;
    if (!(kind & CONTAINER)) chunks->node->kinds |= kind;
    return ++chunks->seen < r->chunk ? 0 : end_of(r, chunks);
}

static int add_arrays(Reading *r, Node *node, size_t from, size_t count, int depth) {
    if (!node->items && !(node->items = make(r))) return -1;
    Chunks chunks = {node->items, r->height, 0, depth};
    for (size_t i = 0; i < count; i++) {
        PyObject *array = r->column[from + i];
        if (Py_TYPE(array) != &PyList_Type) continue;
        for (Py_ssize_t at = 0; at < PyList_Size(array); at++, r->work++) { /* asked anew: it may be shorter by now */
            PyObject *value = PyList_GetItem(array, at);
            int kind = kind_of(r, value);
            if (!kind || next_of(r, &chunks, value, kind)) return -1;
        }
    }
    return end_of(r, &chunks);
}

/* Mark the keys that are data with `now` of them left as it is and `last` negative; return how many: see `Inference._foldable`.
   The members from `known` on are new. `every` is how many different keys the objects have, `all` how many all of them together. */
static size_t fold(Reading *r, Node *node, size_t known, size_t objects, size_t every, size_t all) {
    size_t new = node->count - known, live = known - node->folded, rare = 0, found = 0, of_kind[2] = {0, 0};
    int only = 0; /* that of the rare ones alone */
    if (node->rest) {
        for (size_t i = known; i < node->count; i++) node->members[i].last = -1;
        return new;
    }
    if (new <= r->map_keys && new + live <= r->wide_keys) return 0;
    if (objects > (new + live > r->wide_keys ? r->few_objects : 1) && node->objects < objects) {
        if (every * objects == all) return 0;
        only = 1;
    }
    for (size_t i = known; i < node->count; i++) {
        Member *one = &node->members[i];
        if (only && 2 * one->now > objects) continue;
        rare++;
        if (one->last & CONTAINER) of_kind[one->last == ARRAY]++;
    }
    int is_wide = rare && rare + live > r->wide_keys;
    if (!is_wide && rare <= r->map_keys) return 0;
    for (size_t i = known; i < node->count; i++) {
        Member *one = &node->members[i];
        if (only && 2 * one->now > objects) continue;
        if (is_wide || (one->last & CONTAINER && of_kind[one->last == ARRAY] > r->map_keys)) one->last = -1, found++;
    }
    return found;
}

static int add_objects(Reading *r, Node *node, size_t from, size_t count, int depth) {
    size_t known = node->count, objects = 0, all = 0, values_room = 0, met_room = 0, n_values = 0, n_met = 0, longest = 0;
    size_t base = r->height, containers = 0;
    Value *values = NULL;
    size_t *met = NULL; /* the members that these objects have, in the order in which they come */
    int failed = -1;
    for (size_t i = 0; i < count; i++) {
        PyObject *one = r->column[from + i], *key, *value;
        if (Py_TYPE(one) != &PyDict_Type) continue;
        Py_ssize_t place = 0;
        size_t hint = 0, length = 0;
        int is_first = !node->count;
        for (Py_ssize_t ahead = 0; PyDict_Next(one, &ahead, &key, &value);) __builtin_prefetch(value); /* most are not in the cache */
        while (PyDict_Next(one, &place, &key, &value)) {
            size_t at = member_of(r, node, key, hint, is_first);
            int kind = at == SIZE_MAX ? 0 : kind_of(r, value);
            if (!kind) goto done;
            Member *member = &node->members[at];
            if (!member->now++) {
                size_t *longer = grown(r, met, n_met, &met_room, sizeof *met);
                if (!longer) goto done;
                (met = longer)[n_met++] = at;
            }
            member->last = kind;
            hint = at + 1, length++;
            if (kind & CONTAINER) member->containers++; else member->kinds |= kind;
            if (kind & CONTAINER || !member->node) { /* a scalar counts as one of a chunk if its key is folded */
                Value *longer = grown(r, values, n_values, &values_room, sizeof *values);
                if (!longer) goto done;
                (values = longer)[n_values++] = (Value){kind & CONTAINER ? Py_NewRef(value) : NULL, at, kind};
            }
        }
        objects++, all += length, r->work += length;
        if (length > longest) longest = length;
    }
    if (!objects) { failed = 0; goto done; }

    int is_one = objects == 1 && !node->rest && (longest <= r->map_keys || !r->fold);
    size_t new_folded = r->fold && !is_one ? fold(r, node, known, objects, n_met, all) : 0;
    if (new_folded || (r->fold && node->rest && !is_one)) {
        size_t folding = 0;
        for (size_t i = 0; i < n_met; i++) {
            Member *member = &node->members[met[i]];
            if (met[i] < known ? !member->node : member->last < 0) { member->last = -1; folding++; }
        }
        if (folding) {
            r->folded = 1;
            if (!node->rest && !(node->rest = make(r))) goto done;
            Chunks chunks = {node->rest, r->height, 0, depth};
            for (size_t i = 0; i < n_values; i++) {
                if (node->members[values[i].member].last >= 0) continue;
                if (next_of(r, &chunks, values[i].value, values[i].kind)) goto done;
            }
            if (end_of(r, &chunks)) goto done;
        }
        node->folded += new_folded;
    }

    /* The columns of the other members, one behind the other. */
    size_t live_now = 0, full = 0;
    for (size_t i = 0; i < n_met; i++) {
        Member *member = &node->members[met[i]];
        if (member->last < 0) continue;
        live_now++, full += member->now == objects;
        if (!member->node && !(member->node = make(r))) goto done;
        size_t start = base + containers;
        containers += member->containers;
        member->containers = start;
    }
    for (size_t i = 0; i < containers; i++)
        if (push(r, Py_None)) goto done;
    for (size_t i = 0; i < n_values; i++) {
        Member *member = &node->members[values[i].member];
        if (member->last < 0 || !values[i].value) continue;
        Py_DECREF(r->column[member->containers]);
        r->column[member->containers++] = Py_NewRef(values[i].value);
    }
    for (size_t i = 0, start = base; i < n_met; i++) {
        Member *member = &node->members[met[i]];
        if (member->last < 0) continue;
        member->node->kinds |= member->kinds;
        if (add(r, member->node, start, member->containers - start, depth)) goto done;
        start = member->containers;
    }

    size_t live = node->count - node->folded, was_live = live;
    for (size_t i = known; i < node->count; i++) was_live -= node->members[i].last >= 0;
    node->has_counts |= (node->objects && was_live != live) || live_now != live || full != live;
    node->objects += objects;
    failed = 0;
done:
    for (size_t i = 0; i < n_values; i++) Py_XDECREF(values[i].value);
    for (size_t i = 0; i < n_met; i++) {
        Member *member = &node->members[met[i]];
        member->count += member->now;
        member->now = member->containers = 0, member->kinds = member->last = 0;
    }
    drop(r, base), free(values), free(met);
    return failed;
}

/* Read arrays and objects of a place: `count` of the column, beginning at `from`. See `Inference._add`. */
static int add(Reading *r, Node *node, size_t from, size_t count, int depth) {
    int kinds = 0;
    if (!count) return 0;
    breathe(r);
    for (size_t i = 0; i < count; i++) kinds |= Py_TYPE(r->column[from + i]) == &PyDict_Type ? OBJECT : ARRAY;
    if (depth >= r->deepest) {
        if (!r->plain) { r->state = ODD; return -1; }
        r->is_cut = node->is_cut = 1;
    } else {
        if (!(node->kinds & CONTAINER)) node->arrays_first = Py_TYPE(r->column[from]) != &PyDict_Type;
        if (kinds & OBJECT && add_objects(r, node, from, count, depth + 1)) return -1;
        if (kinds & ARRAY && add_arrays(r, node, from, count, depth + 1)) return -1;
    }
    node->kinds |= kinds;
    return 0;
}

/* Set an element to a new reference; NULL is an error. */
static int put(PyObject *all, size_t at, PyObject *value) { return PyTuple_SetItem(all, (Py_ssize_t)at, value) || !value; }

/* A Python `Node`, made by `make` of all that it says. Equal places share one, which `known` has: nobody changes what was read. But arrays
   of arrays, and those whose lengths are measured, have their own, because what is found of one place alone is kept by its node; and so
   have maps. */
static PyObject *built(PyObject *make, const Node *node, PyObject *known, int depth) {
    PyObject *made = NULL, *keys = node->folded ? PyDict_New() : Py_NewRef(Py_None), *every = PyList_New(0);
    PyObject *all = PyTuple_New((Py_ssize_t)(FIXED + 3 * (node->count - node->folded)));
    if (!all || !keys || !every || put(all, 0, PyLong_FromLong(node->kinds))) goto done;
    if (put(all, 1, PyLong_FromSize_t(node->objects)) || put(all, 2, PyBool_FromLong(node->arrays_first))) goto done;
    if (put(all, 4, node->items ? built(make, node->items, known, depth + 1) : Py_NewRef(Py_None))) goto done;
    if (put(all, 5, node->rest ? built(make, node->rest, known, depth + 1) : Py_NewRef(Py_None))) goto done;
    if (put(all, 3, PyBool_FromLong(node->is_cut)) || put(all, 6, PyBool_FromLong(node->has_counts))) goto done;
    for (size_t i = 0, at = FIXED; i < node->count; i++) {
        const Member *member = &node->members[i];
        if (!member->node && PyDict_SetItem(keys, member->key, Py_None)) goto done;
        if (!member->node && member->count == node->objects && PyList_Append(every, member->key)) goto done;
        if (!member->node) continue;
        if (put(all, at++, Py_NewRef(member->key)) || put(all, at++, PyLong_FromSize_t(member->count))) goto done;
        if (put(all, at++, built(make, member->node, known, depth + 1))) goto done;
    }
    int is_own = node->folded || (node->kinds & ARRAY && (depth < LENGTHS || (node->items && node->items->kinds & CONTAINER)));
    if (!is_own && (made = Py_XNewRef(PyDict_GetItemWithError(known, all)))) goto done;
    if (!PyErr_Occurred()) made = PyObject_CallFunctionObjArgs(make, all, keys, every, NULL);
    if (made && !is_own && PyDict_SetItem(known, all, made)) Py_CLEAR(made);
done:
    Py_XDECREF(all), Py_XDECREF(keys), Py_XDECREF(every);
    return made;
}

static PyObject *read_value(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *value, *make_node, *known, *node, *result = NULL;
    Py_ssize_t map_keys, wide_keys, few_objects, chunk;
    Reading r = {0};
    if (!PyArg_ParseTuple(arguments, "OOO!ppinnnn", &value, &make_node, &PyDict_Type, &known, &r.plain, &r.fold, &r.deepest, &map_keys,
                          &wide_keys, &few_objects, &chunk)) return NULL;
    if (map_keys < 0 || wide_keys < 0 || few_objects < 1 || chunk < 1) return PyErr_Format(PyExc_ValueError, "these are counts");
    r.map_keys = (size_t)map_keys, r.wide_keys = (size_t)wide_keys, r.few_objects = (size_t)few_objects, r.chunk = (size_t)chunk;
    Node *root = make(&r);
    int kind = root ? kind_of(&r, value) : 0;
    if (kind && !(kind & CONTAINER)) root->kinds = kind;
    else if (kind && !push(&r, value)) add(&r, root, 0, 1, 0);
    if (r.state == MEMORY) PyErr_NoMemory();
    else if (r.state == ODD) result = Py_NewRef(Py_None);
    else if ((node = built(make_node, root, known, 0))) result = Py_BuildValue("(Nii)", node, r.folded, r.is_cut);
    drop(&r, 0), free(r.column);
    for (Node *node = r.made, *before; node; node = before) {
        before = node->made_before;
        for (size_t i = 0; i < node->count; i++) Py_DECREF(node->members[i].key);
        Py_XDECREF(node->numbers), free(node->members), free(node);
    }
    return result;
}

static PyMethodDef functions[] = {
    {"read", read_value, METH_VARARGS, "Return a value's node, whether keys were folded and places cut; None: Python has to read it."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_columns", NULL, -1, functions, NULL, NULL, NULL, NULL};
/* VERSION becomes another number, here and where the module is loaded, when a function takes or returns something else. */
PyMODINIT_FUNC PyInit__columns(void) { PyObject *m = PyModule_Create(&def); return m && PyModule_AddIntConstant(m, "VERSION", 2) ? 0 : m; }
