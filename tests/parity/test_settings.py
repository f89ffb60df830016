"""Settings of the search in a checkpoint's files mean what they mean to the reference implementation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from tx.model.convert import convert_folder, search_for
from tx.model.errors import CheckpointError
from tx.model.families import FORCED_FIRST, FORCED_LAST, GENERATION, NOT_FOLLOWED, SPECIAL

SEARCH = {"encoder_layers": 1, "decoder_layers": 2, "seed": 5, "n_prompts": 60}
LANGUAGE = 0
# Changed alone, each of them changes outputs.
SETTINGS: dict[str, dict[str, Any]] = {
    "repetition_penalty": {"repetition_penalty": 1.4},
    "encoder_repetition_penalty": {"encoder_repetition_penalty": 1.3},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "encoder_no_repeat_ngram_size": {"encoder_no_repeat_ngram_size": 2},
    "suppress_tokens": {"suppress_tokens": [*range(20, 50)]},
    "begin_suppress_tokens": {"begin_suppress_tokens": [*range(8, 60)]},
    "bad_words_ids": {"bad_words_ids": [[i] for i in range(20, 50)]},
    "min_length": {"min_length": 9},
    "min_new_tokens": {"min_new_tokens": 9},
}
ALL = {key: value for setting in SETTINGS.values() for key, value in setting.items() if key != "min_length"}


def converted(parity: Any, search: Any, **settings: Any) -> Any:
    values = {"forced_bos_token_id": LANGUAGE, "forced_eos_token_id": None, **settings}
    return parity.converted("bart", search.reference, **values).generation


def check(parity: Any, search: Any, beam: int, **settings: Any) -> Any:
    """Compares searches; gives what both found."""
    theirs = search.theirs(beam, **settings)
    ours = dataclasses.asdict(converted(parity, search, num_beams=beam, **settings))
    lengths = ("max_length", "max_length_factor", "max_length_constant")
    search.compare("torch", theirs, **{name: value for name, value in ours.items() if name not in lengths})
    return [[ids for ids, _ in hs] for hs in theirs]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("key", SETTINGS)
@pytest.mark.usefixtures("no_loop_detection")
def test_each_setting(parity: Any, key: str, beam: int) -> None:
    search = parity.search("bart", before=[LANGUAGE], **SEARCH)
    found = check(parity, search, beam, early_stopping=False, **SETTINGS[key])
    assert found != check(parity, search, beam, early_stopping=False)


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.usefixtures("no_loop_detection")
def test_all_of_them_together(parity: Any, beam: int, renormalize: bool) -> None:
    search = parity.search("bart", before=[LANGUAGE], **SEARCH)
    found = check(parity, search, beam, early_stopping=False, renormalize_logits=renormalize, **ALL)
    other = search.theirs(beam, early_stopping=False, renormalize_logits=not renormalize, **ALL)
    assert (found != [[ids for ids, _ in hs] for hs in other]) == (beam > 1)  # of one beam it changes nothing


@pytest.mark.parametrize(
    "lengths",
    [{"max_length": 7}, {"max_new_tokens": 6}, {"max_length": 7, "forced_eos_token_id": 2}],
    ids=lambda lengths: "-".join(lengths),
)
@pytest.mark.usefixtures("no_loop_detection")
def test_outputs_are_cut_where_those_of_the_reference_are(parity: Any, lengths: dict[str, int]) -> None:
    search = parity.search("bart", before=[LANGUAGE], **SEARCH)
    theirs = search.theirs(1, **lengths)
    ours = search.ours("torch", converted(parity, search, num_beams=1, **lengths))
    assert [list(best.ids) for (best,) in ours] == [ids for ((ids, _),) in theirs]
    cut = [best for (best,) in ours if not best.finished]
    assert len(cut) > 20 and len({len(best.ids) for best in cut}) == 1
    assert any(best.finished for (best,) in ours)


def test_every_setting_of_the_reference_is_known() -> None:
    """Read, or said not to be, or one that changes no output here."""
    read = {*(key for keys in GENERATION.values() for key in keys), *SPECIAL.values(), FORCED_FIRST, FORCED_LAST}
    sampling = {"temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"}
    other = {
        *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "compile_config", "disable_compile"),
        *("num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "output_logits"),
        *("return_dict_in_generate", "remove_invalid_values", "use_mtp", "continuous_batching_config"),
        *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
        *("prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind"),
        *(
            "target_lookbehind",
            "assistant_ensemble_weight",
            "speculation_type",
            "transformers_version",
            "low_memory",
            "prefill_chunk_size",
        ),
    }
    config = transformers.GenerationConfig()
    theirs = {*config.to_dict(), *config._get_default_generation_params()} - {"_from_model_config"}
    assert theirs <= {*read, *NOT_FOLLOWED, *sampling, *other}
    assert not {*read} & {*NOT_FOLLOWED}


@pytest.fixture
def folder(parity: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    parity.pair("bart").reference.save_pretrained(folder)
    change(folder / "generation_config.json", forced_eos_token_id=None)
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_what_is_not_followed_is_said(folder: Path) -> None:
    assert convert_folder(folder).notes == ()
    search = folder / "generation_config.json"
    change(search, do_sample=True, max_time=2.5, num_beam_groups=1, top_k=7, temperature=0.5, sequence_bias=[])
    (note,) = convert_folder(folder).notes
    assert note == "generation_config.json: tx does not follow do_sample, max_time, which may change outputs"
    change(search, do_sample=False, max_time=None)
    assert convert_folder(folder).notes == ()


def test_what_is_followed_in_part_is_said(folder: Path) -> None:
    """Bad words of several pieces, and end pieces after the first."""
    change(folder / "generation_config.json", bad_words_ids=[[9], [3, 4], [11]], eos_token_id=[2, 5])
    found = convert_folder(folder)
    assert (found.generation.suppress, found.special.eos) == ((9, 11), 2)
    assert found.notes == (
        "generation_config.json: tx does not follow bad_words_ids of several pieces, which may change outputs",
        "generation_config.json: eos_token_id is [2, 5]: outputs end with the first of these only",
    )


def test_of_two_files_the_one_for_it_says_how_to_search(folder: Path) -> None:
    """As for the reference implementation: config.json does only where there is no other."""
    change(folder / "config.json", num_beams=5, do_sample=True, max_length=33, forced_eos_token_id=None)
    change(folder / "generation_config.json", length_penalty=0.5)
    found = convert_folder(folder)
    assert (found.generation.beam_size, found.generation.length_penalty, found.notes) == (4, 0.5, ())
    assert (found.generation.max_length_factor, found.generation.max_length_constant) == (2.0, 10)  # nothing is said
    (folder / "generation_config.json").unlink()
    found = convert_folder(folder)
    assert (found.generation.beam_size, found.generation.max_length, len(found.notes)) == (5, 32, 1)


def test_settings_for_a_task(folder: Path) -> None:
    change(folder / "generation_config.json", max_new_tokens=50, num_beams=3)
    own = {"max_length": 21, "do_sample": True, "num_beams": 3, "suppress_tokens": [9]}
    change(folder / "config.json", task_specific_params={"summarization": own})
    search, notes = search_for(folder, "summarization", convert_folder(folder))
    assert search == {"max_length": 20, "max_length_constant": 20, "suppress": (9,)}
    assert notes == (
        "config.json: task_specific_params: summarization: tx does not follow do_sample, which may change outputs",
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"num_beams": 0}, "generation_config.json: num_beams: beam_size is out of range: 0"),
        ({"max_new_tokens": "9"}, "generation_config.json: max_new_tokens is '9', which is no number"),
        ({"max_new_tokens": 0}, "generation_config.json: max_new_tokens is 0, which leaves no room for an output"),
        ({"repetition_penalty": 0}, "generation_config.json: repetition_penalty is out of range: 0"),
        ({"repetition_penalty": True}, "generation_config.json: repetition_penalty is True, which is no number"),
        ({"early_stopping": "soon"}, "generation_config.json: early_stopping is 'soon', not true, false or"),
        ({"renormalize_logits": 1}, "generation_config.json: renormalize_logits is 1, not true or false"),
        ({"suppress_tokens": [67]}, "generation_config.json: suppress_tokens has [67], which are not the numbers of"),
        ({"begin_suppress_tokens": 3}, "generation_config.json: begin_suppress_tokens is 3, which is no list"),
        ({"max_length": 1}, "generation_config.json: max_length is 1, which leaves no room for an output"),
        ({"bad_words_ids": [[]]}, "generation_config.json: bad_words_ids has [[]], which are not the numbers of"),
        ({"eos_token_id": 999}, "generation_config.json: eos_token_id is 999, which is not the number of one of 67"),
        ({"forced_bos_token_id": "x"}, "generation_config.json: forced_bos_token_id is 'x', which is not the number"),
    ],
    ids=str,
)
def test_the_file_at_fault_is_named(folder: Path, values: dict[str, Any], words: str) -> None:
    change(folder / "generation_config.json", **values)
    with pytest.raises(CheckpointError) as caught:
        convert_folder(folder)
    assert words in str(caught.value) and str(folder) in str(caught.value) and "\n" not in str(caught.value)
