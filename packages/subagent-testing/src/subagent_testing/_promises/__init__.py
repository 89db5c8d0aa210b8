"""The promises, by subject; the tables are at the end of this module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final

from subagent_testing._promise import Promise, Subject
from subagent_testing._promises import (
    asking,
    bursting,
    publication,
    seam_cancel,
    seam_events,
    seam_start,
    seam_time,
    seam_verdict,
    starting,
    stopping,
    working,
)

PROVIDER: Final[tuple[Promise, ...]] = (
    Promise(publication.name_is_kebab_case),
    Promise(publication.name_is_the_same_for_the_same_configuration),
    Promise(publication.capabilities_are_known_words),
    Promise(publication.options_are_frozen_and_closed),
    Promise(publication.making_and_starting_do_nothing_yet),
    Promise(publication.probing_always_answers),
    Promise(publication.models_have_names_of_their_own),
    Promise(publication.what_it_cannot_do_is_refused_by_name),
    Promise(publication.messages_are_refused_unless_it_can_send),
    Promise(working.a_task_completes),
    Promise(working.the_verdict_does_not_change),
    Promise(working.a_verdict_comes_before_teardown),
    Promise(working.started_is_told_once),
    Promise(working.entering_returns_when_the_work_is_accepted),
    Promise(working.events_end_with_the_verdict),
    Promise(working.all_goes_through_json_unchanged),
    Promise(starting.a_failed_start_is_one_start_error),
    Promise(starting.cancelled_before_entering_it_starts_nothing),
    Promise(starting.cancelled_while_entering_it_is_aborted),
    Promise(starting.a_caller_cancelled_while_entering_leaves_nothing),
    Promise(starting.raw_cancels_while_entering_leave_nothing),
    Promise(stopping.cancelled_it_is_aborted),
    Promise(stopping.cancelled_from_a_thread_it_is_aborted),
    Promise(stopping.cancelled_twice_or_after_the_end_nothing_changes),
    Promise(stopping.leaving_stops_it),
    Promise(stopping.an_exception_of_the_body_comes_out_as_it_is),
    Promise(stopping.a_dropped_handle_stops_it),
    Promise(stopping.it_may_be_left_in_another_task),
    Promise(stopping.a_cancelled_scope_stops_it),
    Promise(stopping.raw_cancels_leave_nothing),
    Promise(stopping.the_end_of_the_loop_ends_it, leaves_open=True),
    Promise(stopping.a_deadline_is_a_timeout),
    Promise(stopping.stopping_one_leaves_the_other_alone),
    Promise(asking.nobody_to_ask_is_a_rejection),
    Promise(asking.a_callback_decides),
    Promise(asking.a_callback_that_fails_is_a_rejection),
    Promise(asking.cancelled_in_the_callback_it_is_aborted),
    Promise(asking.context_variables_reach_the_callback),
    Promise(bursting.a_reader_that_keeps_up_loses_nothing),
    Promise(bursting.two_bursts_at_once_lose_nothing),
    Promise(bursting.a_reader_that_sleeps_is_bounded_and_told),
    Promise(stopping.nothing_is_left),
)
"""What every provider keeps, whoever wrote it."""


def _of_the_seam(keep: Callable[[], Awaitable[None]]) -> Promise:
    @wraps(keep)
    async def without_a_subject(_: Subject) -> None:
        await keep()

    return Promise(without_a_subject)


SEAM: Final[tuple[Promise, ...]] = (
    _of_the_seam(seam_start.a_start_error_comes_after_the_clean_up),
    _of_the_seam(seam_start.any_exception_before_ready_is_a_start_error),
    _of_the_seam(seam_start.a_verdict_without_ready_is_published),
    _of_the_seam(seam_start.start_up_can_be_followed),
    _of_the_seam(seam_start.cancelled_before_entering_drive_is_never_called),
    _of_the_seam(seam_start.a_run_is_entered_once),
    _of_the_seam(seam_start.a_delegates_delegate_is_refused),
    _of_the_seam(seam_start.each_field_is_refused_without_and_reaches_drive_with_its_capability),
    _of_the_seam(seam_verdict.a_verdict_is_there_while_teardown_is_held),
    _of_the_seam(seam_verdict.the_first_verdict_counts),
    _of_the_seam(seam_verdict.no_verdict_is_an_error_of_kind_exit),
    _of_the_seam(seam_verdict.an_exception_is_an_error),
    _of_the_seam(seam_verdict.a_stray_cancelled_error_is_an_error),
    _of_the_seam(seam_verdict.completed_needs_something_to_show),
    _of_the_seam(seam_verdict.a_structured_answer_is_validated),
    _of_the_seam(seam_verdict.messages_arrive_in_order_until_the_verdict),
    _of_the_seam(seam_cancel.aborted_at_once_while_teardown_is_held),
    _of_the_seam(seam_cancel.a_swallowed_cancellation_stays_aborted),
    _of_the_seam(seam_cancel.a_drive_that_never_ends_cannot_hold_the_caller),
    _of_the_seam(seam_cancel.a_teardown_that_never_ends_is_cancelled),
    _of_the_seam(seam_cancel.an_exception_in_teardown_stays_aborted),
    _of_the_seam(seam_cancel.raw_cancels_do_not_cut_teardown_short),
    _of_the_seam(seam_events.every_event_of_a_burst_reaches_a_reader_that_keeps_up),
    _of_the_seam(seam_events.what_a_sleeping_reader_missed_is_counted_to_the_event),
    _of_the_seam(seam_events.two_readers_get_the_same_text_and_nothing_twice),
    _of_the_seam(seam_events.nothing_is_told_after_the_verdict),
    _of_the_seam(seam_events.a_reader_begins_at_the_beginning),
    _of_the_seam(seam_events.one_huge_event_is_told),
    _of_the_seam(seam_time.a_deadline_covers_start_up),
    _of_the_seam(seam_time.silence_is_a_timeout),
    _of_the_seam(seam_time.time_stands_still_while_a_person_is_asked),
    _of_the_seam(seam_time.context_variables_reach_drive),
    _of_the_seam(seam_time.an_answer_that_takes_too_long_is_a_rejection),
    _of_the_seam(seam_time.an_answer_never_grants_more_than_was_offered),
)
"""What the seam keeps whatever a backend does; shown with scripted providers."""
