"""Algorithm 1 on the paper's own example, and on small graphs."""

from rowen.runtime.coserve.pruning.pruning import Joint, Kept, Operator, activations, live, prune, total_bytes


def operator(name: str, *inputs: str, cost: float = 100.0, size: int = 10) -> Operator:
    return Operator(name, inputs, size, cost)


# Figure 5: a feed-forward network with a low-rank bypass beside its second matrix.
MLP = Joint(
    forward=[
        operator("up", "x", "w1"),
        operator("active", "up", cost=1.0),
        operator("down", "active", "w2"),
        operator("low", "active", "a", cost=8.0),
        operator("bypass", "low", "b"),
        operator("y", "down", "bypass", cost=1.0),
    ],
    backward=[
        operator("d_w2", "dy", "active"),
        operator("d_b", "dy", "low"),
        operator("d_low", "dy", "b"),
        operator("d_a", "d_low", "active"),
        operator("d_active_bypass", "d_low", "a"),
        operator("d_active_base", "dy", "w2"),
        operator("d_active", "d_active_bypass", "d_active_base"),
        operator("d_up", "d_active", "up"),
        operator("d_w1", "d_up", "x"),
        operator("d_x", "d_up", "w1"),
    ],
)
WEIGHTS = {"w1", "w2", "a", "b"}


def test_gradients_of_frozen_weights_need_nothing() -> None:
    names = [each.name for each in live(MLP.backward, ["d_a", "d_b", "d_x"])]
    assert names == [
        "d_b", "d_low", "d_a", "d_active_bypass", "d_active_base", "d_active", "d_up", "d_x",
    ]  # fmt: skip
    assert activations(MLP, ["d_a", "d_b", "d_x"]) == {"up", "active", "low"}


def test_what_leads_nowhere_is_pruned() -> None:
    # No gradient of the inputs: nothing goes back through the activation.
    assert activations(MLP, ["d_a", "d_b"]) == {"active", "low"}
    assert activations(MLP, ["d_b"]) == {"low"}
    assert activations(MLP, []) == frozenset()


def test_what_costs_little_is_made_again() -> None:
    kept = prune(MLP, ["d_a", "d_b", "d_x"], threshold=16.0, always=WEIGHTS | {"x"})
    # What is made again itself is nothing to make others of, as in line 25.
    assert kept == Kept(memorized=frozenset({"up", "low"}), rematerialized=frozenset({"active"}))
    assert total_bytes(MLP, kept.memorized) == 20


def test_what_costs_as_much_as_the_threshold_is_kept() -> None:
    kept = prune(MLP, ["d_a", "d_b", "d_x"], threshold=1.0, always=WEIGHTS | {"x"})
    assert kept.memorized == {"up", "active", "low"}
    kept = prune(MLP, ["d_a", "d_b", "d_x"], threshold=101.0, always=WEIGHTS | {"x"})
    assert kept.memorized == {"active"}
    assert kept.rematerialized == {"up", "low"}


def test_nothing_is_made_of_what_is_not_there() -> None:
    kept = prune(MLP, ["d_a", "d_b", "d_x"], threshold=101.0, always=WEIGHTS)
    assert kept.memorized == {"up", "low"}
