from modelpact.vocabulary.memo import BoundedMemo


def test_a_value_is_computed_once() -> None:
    memo: BoundedMemo[str, int] = BoundedMemo()
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        return 7

    assert [memo.get_or_compute("a", compute) for _ in range(3)] == [7, 7, 7]
    assert len(calls) == 1


def test_it_never_holds_more_than_its_bound() -> None:
    memo: BoundedMemo[int, int] = BoundedMemo(max_entries=3)
    for number in range(10):
        memo[number] = number
        assert len(memo) <= 3
    assert memo.get(9) == 9
    assert memo.get(0) is None


def test_what_is_cleared_is_computed_again() -> None:
    memo: BoundedMemo[str, int] = BoundedMemo()
    memo["a"] = 1
    memo.clear()
    assert "a" not in memo
    assert memo.get_or_compute("a", lambda: 2) == 2
