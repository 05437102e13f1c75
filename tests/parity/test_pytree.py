"""Trees of containers: the same leaves, structures, texts and errors as PyTorch's."""

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import plugrad.utils._pytree as ours

theirs = pytest.importorskip("torch.utils._pytree")

Point = namedtuple("Point", "x y")
TREES = (
    1, None, [], [1, 2], (1, (2, [3])), {"b": 1, "a": {"c": (2, 3)}}, OrderedDict(z=1, a=[2]),
    defaultdict(list, {"k": 1}), deque([1, 2], maxlen=3), Point(1, [2, 3]), [{"x": Point((), 4)}, ()],
)  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_structures(tree):
    (leaves, spec), (their_leaves, their_spec) = ours.tree_flatten(tree), theirs.tree_flatten(tree)
    assert leaves == their_leaves and repr(spec) == repr(their_spec)
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (
        their_spec.num_leaves, their_spec.num_nodes, their_spec.num_children,
    )  # fmt: skip
    assert ours.tree_unflatten(leaves, spec) == tree and hash(spec) == hash(ours.tree_structure(tree))
    assert ours.treespec_pprint(spec) == theirs.treespec_pprint(their_spec)
    paths = [(ours.keystr(path), leaf) for path, leaf in ours.tree_leaves_with_path(tree)]
    assert paths == [(theirs.keystr(path), leaf) for path, leaf in theirs.tree_leaves_with_path(tree)]
    assert all(ours.key_get(tree, path) == leaf for path, leaf in ours.tree_leaves_with_path(tree))
    if "Point" not in repr(spec):
        text = ours.treespec_dumps(spec)
        assert text == theirs.treespec_dumps(their_spec) and ours.treespec_loads(text) == spec


@pytest.mark.parametrize(
    "use",
    [
        lambda tree: tree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]),
        lambda tree: tree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, {"b": [3], "a": 4}),
        lambda tree: tree.tree_map(lambda a, b: a, [1], [1, 2]),
        lambda tree: tree.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}),
        lambda tree: tree.tree_map(lambda a, b: a, [1], (1,)),
        lambda tree: tree.tree_map_only(int, lambda n: -n, [1, "a", None]),
        lambda tree: tree.tree_map_only((int, str), lambda n: 0, [1, "a", None]),
        lambda tree: tree.tree_map(len, [[1, 2], [3]], is_leaf=lambda node: len(node) < 2 or node[0] == 1),
        lambda tree: tree.tree_map_with_path(lambda path, leaf: (tree.keystr(path), leaf), {"a": [1]}),
        lambda tree: (tree.tree_all(bool, [1, 0]), tree.tree_any(bool, [1, 0]), tree.tree_all_only(int, bool, [0, ""])),
        lambda tree: tree.tree_unflatten([1], tree.tree_structure([1, 2])),
        lambda tree: tree.tree_unflatten([1], "no structure"),
        lambda tree: tree.register_pytree_node(list, list, list),
        lambda tree: tree.treespec_loads('[2, {"type": null, "context": null, "children_spec": []}]'),
        lambda tree: tree.tree_structure([1]) == tree.tree_structure([2]) != tree.tree_structure((1,)),
        lambda tree: (tree.is_namedtuple_instance(Point(1, 2)), tree.is_namedtuple_class(tuple), tree.tree_is_leaf(())),
        lambda tree: tree._broadcast_to_and_flatten((0, None), tree.tree_structure((1, (2, 3)))),
    ],
)
def test_functions(use):
    def run(library):
        try:
            return repr(use(library))
        except Exception as error:
            return type(error)

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("library", ["plugrad", "torch"])
def test_what_graphs_hold_has_paths(library):
    collections = importlib.import_module(f"{library}.fx.immutable_collections")
    tree = importlib.import_module(f"{library}.utils._pytree")
    held = collections.immutable_dict(a=collections.immutable_list([1, (2, 3)]), b=4)
    told = [(tree.keystr(path), leaf) for path, leaf in tree.tree_leaves_with_path(held)]
    assert told == [("['a'][0]", 1), ("['a'][1][0]", 2), ("['a'][1][1]", 3), ("['b']", 4)]
    doubled = tree.tree_map_with_path(lambda path, leaf: 2 * leaf, held)
    assert doubled == {"a": [2, (4, 6)], "b": 8} and type(doubled) is type(held)


@pytest.mark.parametrize("text", [
    "", "3", "[1]", "[1, 2, 3]", "[1, {}]", "[1, []]", '[1, {"type": "builtins.list"}]',
    '[1, {"type": "builtins.list", "context": null, "children_spec": []}]',
    '[1, {"type": "builtins.list", "context": "null", "children_spec": 3}]',
    '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
    '"default_factory_name": "eval", "dict_context": []}, "children_spec": []}]',
    '[1, {"type": "builtins.list", "context": "null", "children_spec": ' * 400,
])  # fmt: skip
def test_texts_that_are_no_structures(text):
    with pytest.raises(ValueError):
        ours.treespec_loads(text)
