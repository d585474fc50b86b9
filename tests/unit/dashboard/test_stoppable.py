"""Work on a page's own thread ends at the model's next pass when somebody does something else."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def page(ask_to_stop: bool) -> None:
    """Forty passes of a tiny model in a cached function; after four a user may do something else."""
    import streamlit as st
    import torch
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from tests.unit.tiny import tiny_causal
    from workbench.dashboard import resources

    resources._SECONDS_BETWEEN_COUNTS = 0.0
    model = st.session_state.setdefault("model", tiny_causal())

    @st.cache_resource(show_spinner="Working …", hash_funcs={type(model): resources.identity})
    def work(model: object) -> int:
        with resources.stoppable(st.session_state["model"]):
            for done in range(40):
                st.session_state["passes"] = done
                if ask_to_stop and done == 4:
                    get_script_run_ctx().script_requests.request_stop()  # type: ignore[union-attr]
                st.session_state["model"].model(input_ids=torch.tensor([[1, 2, 3]]))
        return done

    work.clear()
    st.write(f"did {work(model) + 1}")


@pytest.mark.parametrize(("ask_to_stop", "passes", "written"), [(True, 4, []), (False, 39, ["did 40"])])
def test_what_a_user_does_next_ends_the_work(ask_to_stop: bool, passes: int, written: list[str]) -> None:
    app = AppTest.from_function(page, args=(ask_to_stop,), default_timeout=300).run()
    assert not app.exception
    assert app.session_state["passes"] == passes
    assert [element.value for element in app.markdown] == written
    assert not app.session_state["model"].model._forward_pre_hooks
    assert ask_to_stop or not app.caption  # the count does not stay


def measuring_page() -> None:
    """Passes in a context of their own, as those that measure a model are."""
    from contextvars import Context

    import streamlit as st
    import torch

    from tests.unit.tiny import tiny_causal
    from workbench.dashboard import resources

    resources._SECONDS_BETWEEN_COUNTS = 0.0
    model = tiny_causal()
    with resources.stoppable(model):
        for _ in range(3):
            Context().run(model.model, input_ids=torch.tensor([[1, 2, 3]]))
    st.write("measured")


def test_passes_in_another_context_show_nothing() -> None:
    app = AppTest.from_function(measuring_page, default_timeout=300).run()
    assert not app.exception
    assert [element.value for element in app.markdown] == ["measured"]
