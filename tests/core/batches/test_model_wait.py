"""How long the requests of a batch wait for models that nobody serves."""

from smg_core.batches.model_wait import Absences


def test_of_many_requests_for_a_model_that_never_comes_the_first_ones_wait_and_the_rest_do_not() -> None:
    absences = Absences(60)
    assert absences.found_nobody("m", 0.0, 0.0)
    assert absences.found_nobody("m", 0.0, 59.0)
    assert not absences.found_nobody("m", 0.0, 60.0)
    assert not absences.found_nobody("m", 61.0, 61.0)


def test_a_model_that_was_there_in_between_is_waited_for_again() -> None:
    absences = Absences(60)
    assert not absences
    assert absences.found_nobody("m", 0.0, 0.0)
    assert absences
    absences.answered("m")
    assert not absences
    assert absences.found_nobody("m", 1000.0, 1000.0)


def test_models_are_counted_apart() -> None:
    absences = Absences(60)
    assert absences.found_nobody("m", 0.0, 0.0)
    absences.answered("n")
    assert absences.found_nobody("n", 59.0, 59.0)
    assert not absences.found_nobody("m", 60.0, 60.0)


def test_a_request_that_is_not_found_though_its_model_answers_others_waits_no_longer_than_an_absence() -> None:
    absences = Absences(60)
    for now in range(60):
        assert absences.found_nobody("m", 0.0, float(now))
        absences.answered("m")
    assert not absences.found_nobody("m", 0.0, 60.0)
