"""Languages of other projects' checkpoints: which pairs a model translates, and by which pieces it is told.

A user names a language by its ISO 639-1 code ("zh"), by ISO 639-3 where there is none ("yue"), or as the model does
("zho_Hans", "zh_CN", "__zh__", ">>cmn_Hans<<"). Tables only, and rules that read them; no model is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .config import AllPairs, Task, read_object
from .errors import CheckpointError

# The order in which the codes stand after the pieces of the vocabulary.
_MBART = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX
ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"""
_MBART_50 = """af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN
te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"""
_M2M100 = """af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy
id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so
sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"""
_NLLB = """ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab ary_Arab
arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva
bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn
deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn
fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva
hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda
kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn
kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn luo_Latn
lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn
mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn
pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh
slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn
swh_Latn szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn
tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn
xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn"""

MBART, M2M100, NLLB = _MBART.split(), _M2M100.split(), _NLLB.split()
WMT21 = ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]  # of the M2M100 models of that name
MBART_50 = [*MBART, *_MBART_50.split()]

# ISO 639-3 → 639-1; of a language with several members the one that is written most.
_TWO_LETTERS = """afr:af aka:ak amh:am ara:ar arb:ar arg:an asm:as ava:av ayr:ay aym:ay aze:az azj:az bak:ba bam:bm bel:be
ben:bn bis:bi bod:bo bos:bs bre:br bul:bg cat:ca ces:cs che:ce chv:cv cmn:zh zho:zh cor:kw cos:co cym:cy dan:da deu:de div:dv
dzo:dz ell:el eng:en epo:eo est:et ekk:et eus:eu ewe:ee fao:fo fas:fa pes:fa fij:fj fin:fi fra:fr fry:fy ful:ff fuv:ff gla:gd
gle:ga glg:gl glv:gv grn:gn guj:gu hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hrv:hr hun:hu hye:hy ibo:ig ido:io iku:iu
ina:ia ind:id isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr knc:kr kaz:kk khm:km kik:ki kin:rw kir:ky kmr:ku
kur:ku kom:kv kon:kg kor:ko lao:lo lat:la lav:lv lvs:lv lim:li lin:ln lit:lt ltz:lb lug:lg mal:ml mar:mr mkd:mk mlg:mg plt:mg
mlt:mt mon:mn khk:mn mri:mi msa:ms zsm:ms mya:my nav:nv nep:ne npi:ne nld:nl nno:nn nob:nb nor:no nya:ny oci:oc orm:om gaz:om
ori:or ory:or oss:os pan:pa pol:pl por:pt pus:ps pbt:ps que:qu quy:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk
slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq als:sq srd:sc srp:sr ssw:ss sun:su swa:sw swh:sw swe:sv tam:ta
tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz uzn:uz ven:ve
vie:vi wln:wa wol:wo xho:xh yid:yi ydd:yi yor:yo zha:za zul:zu"""
# Those of ISO 639-2 that libraries use ("B"), and older ones: names of OPUS-MT's models have some.
_OLD_THREE_LETTERS = """alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is jap:ja mac:mk mao:mi
may:ms mol:ro per:fa rum:ro scc:sr scr:hr slo:sk tib:bo wel:cy"""
TWO_LETTERS = dict(entry.split(":") for entry in f"{_TWO_LETTERS} {_OLD_THREE_LETTERS}".split())
# Other codes for the same, tried where a model does not have the one that was asked for.
ALIASES = {"no": "nb", "nb": "no", "iw": "he", "in": "id", "ji": "yi", "fil": "tl", "jp": "ja", "cn": "zh", "nso": "ns", "ns": "nso",
           "mo": "ro", "ak": "tw", "tw": "ak", "gr": "el", "kr": "ko", "ua": "uk", "cz": "cs", "dk": "da", "pob": "pt_BR",
           "pt_br": "pob"}  # fmt: skip
SCRIPTS_OF = {"zh_tw": "Hant", "zh_hk": "Hant", "zh_mo": "Hant", "zh_cn": "Hans", "zh_sg": "Hans"}
# Of codes that become the same short one, those that are written in these get it; then the first.
FIRST_SCRIPTS = ("Hans", "Latn", "")

# What the names of OPUS-MT's groups stand for: languages of Europe and Asia that the models were trained on.
GROUPS = {
    "ROMANCE": "fr es pt it ro ca gl oc la an co sc rm wa scn lmo vec fur lij", "roa": "fr es pt it ro ca gl oc an co sc rm wa",
    "itc": "fr es pt it ro ca gl oc an co sc rm wa la", "gem": "en de nl sv da nb nn no is fo af lb yi fy nds",
    "gmw": "en de nl af lb yi fy nds", "gmq": "sv da nb nn no is fo", "SCANDINAVIA": "sv da nb nn no is fo",
    "NORTH_EU": "de nl fy af da fo is no nb nn sv", "CELTIC": "ga cy br gd kw gv", "cel": "ga cy br gd kw gv",
    "sla": "ru pl uk cs sk sl bg hr sr bs mk be", "zle": "ru uk be", "zlw": "pl cs sk", "zls": "bg hr sr bs sl mk",
    "bat": "lt lv", "fiu": "fi et hu se", "trk": "tr az kk ky uz tk tt ug ba cv", "sem": "ar he mt am ti", "afa": "ar he mt am ti ha so",
    "inc": "hi bn ur mr gu pa ne or as si sa", "iir": "hi bn ur mr gu pa ne or as si fa ps ku tg", "dra": "ta te kn ml",
    "aav": "vi km", "bnt": "sw zu xh st tn ts ny rw rn sn ln lg kg", "nic": "sw zu xh st tn ts ny rw rn sn ln lg kg yo ig wo ee",
    "map": "id ms jv su mg tl ceb mi sm fj to", "poz": "id ms jv su mg tl ceb mi sm fj to", "grk": "el", "hye": "hy",
    "ine": "en fr es pt it ro ca gl de nl sv da no ru pl uk cs sk sl bg hr sr lt lv el hy sq hi bn ur fa",
    "NORWAY": "no nb nn", "SAMI": "se sma smj smn sms", "sal": "shs",
    "ZH": "zh yue lzh wuu", "zhx": "zh yue lzh wuu", "mul": " ".join(M2M100),
}  # fmt: skip

_OPUS_NAME = re.compile(r"opus[-_]mt[-_](?:tc[-_])?(?:(?:big|base|small|tiny)[-_])?(\w+?)-(\w+)(?:-[\d-]+)?$")
_MBART_NAME = re.compile(r"mbart-large-([a-z]{2})-([a-z]{2})$")
_T5_TRANSLATION = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
T5_PREFIXES = {
    "summarization": "summarize: ",
    "translation_en_to_de": "translate English to German: ",
    "translation_en_to_fr": "translate English to French: ",
    "translation_en_to_ro": "translate English to Romanian: ",
}
FEW = 12  # so many pairs are listed one by one


class Vocabulary(Protocol):
    """What a tokenizer must have to be asked for the pieces that say a task."""

    @property
    def special(self) -> Mapping[int, str]: ...
    def id(self, piece: str) -> int: ...
    def encode(self, text: str) -> list[int]: ...


# --- names ---


def short(code: str) -> tuple[str, str]:
    """A model's code as a user would write it, and what else the code says: "zho_Hant" → ("zh", "Hant"), ">>cmn_Hans<<" →
    ("zh", "Hans"), "zh_CN" → ("zh", "Hans"), "en_XX" → ("en", "")."""
    language, _, rest = code.strip("><_").replace("-", "_").partition("_")
    language = language.lower()
    language = TWO_LETTERS.get(language, language)
    rest = SCRIPTS_OF.get(f"{language}_{rest.lower()}", rest)
    if len(rest) == 4:
        return language, rest.title()
    return language, ""


def names(codes: Iterable[str]) -> dict[str, str]:
    """A name for each of a model's codes, no two the same: the short one, else that with its script or region, else the
    code's own; name → code, in the order of the codes. A code that is the short one has it; those of a region ("pt_br")
    come after all others, and of several regions none gets the short one."""
    codes = list(codes)
    own = {code.strip("><_") for code in codes}
    regions: dict[str, set[str]] = {}
    for code in codes:
        if region := _region(code):
            regions.setdefault(short(code)[0], set()).add(region)

    def order_of(code: str) -> tuple[bool, bool, int]:
        language, script = short(code)
        rank = FIRST_SCRIPTS.index(script) if script in FIRST_SCRIPTS else len(script)
        return code.strip("><_") != language, bool(_region(code)), rank

    found: dict[str, str] = {}
    for code in sorted(codes, key=order_of):
        language, script = short(code)
        region, plain = _region(code), code.strip("><_")
        tries = [language, f"{language}_{script}", plain]
        if region:
            spelt = f"{language}_{region}"
            tries = [language] * (len(regions[language]) == 1) + [spelt] * (spelt not in own) + [plain]
        name = next((n for n in tries if n not in found and n[-1:] != "_"), code)
        found[name] = code
    order = {code: i for i, code in enumerate(codes)}
    return dict(sorted(found.items(), key=lambda entry: order[entry[1]]))


def _region(code: str) -> str:
    """What a code says of a region, as in "pt_br": "BR"; "" where it says a script, or none ("en_XX")."""
    rest = code.strip("><_").replace("-", "_").partition("_")[2].upper()
    return "" if rest == "XX" or short(code)[1] else rest


def find(wanted: str, known: Iterable[str]) -> str | None:
    """Which of the names that a model has a user means by `wanted`: the same, or another code for it; None for none."""
    known = dict.fromkeys(known)
    language, script = short(wanted)
    alias = ALIASES.get(language, language)
    spelt = wanted.strip("><_").replace("-", "_")
    tries = [
        wanted,
        spelt,
        ALIASES.get(spelt.lower(), spelt),
        f"{language}_{script}" if script else language,
        language,
        f"{alias}_{script}",
        alias,
    ]
    if (language, script) == ("zh", "Hant"):  # another script is another text
        tries = [name for name in tries if name == wanted or name.endswith("Hant")]
    lower = {name.lower(): name for name in known}
    for name in tries:
        if name in known or name.lower() in lower:
            return name if name in known else lower[name.lower()]
    return None


def pairs(tasks: Mapping[str, Task]) -> dict[tuple[str, str], str]:
    """The directions of translation among tasks, (source, target), with the names of their tasks."""
    if isinstance(tasks, AllPairs):
        return tasks.pairs()
    return {(task.source, task.target): name for name, task in tasks.items() if name.startswith("translate:")}


def offer(known: Iterable[tuple[str, str]]) -> str:
    """Directions in words: "en → zh, zh → en"; of many the languages."""
    known = list(known)
    if len(known) <= FEW:
        return ", ".join(f"{source} → {target}" for source, target in known) or "nothing"
    sources, targets = ({pair[side] for pair in known} for side in (0, 1))
    if sources == targets:
        return f"between any two of {', '.join(sorted(sources))}"
    return f"from {', '.join(sorted(sources))} to {', '.join(sorted(targets))}"


# --- tasks ---


def tasks(
    folder: str | Path, model_type: str, tokenizers: tuple[Vocabulary, Vocabulary], values: Mapping[str, Any]
) -> Mapping[str, Task]:
    """What a folder of Hugging Face can do: tasks "translate:<target>" (or "translate:<source>-<target>" of several
    sources), "summarize" and "answer". `values` are those of its config.json.

    Raises CheckpointError where nothing tells a translation model's languages, or a piece for one is missing.
    """
    folder = Path(folder)
    search = folder / "generation_config.json"
    if search.is_file():  # what it leaves out is not forced, whatever config.json says
        values = {**values, "forced_bos_token_id": None, **_read(search)}
    more = _read(folder / "tokenizer_config.json")
    called = [
        folder.resolve().name,
        *(str(v.get("_name_or_path") or v.get("name_or_path") or "") for v in (values, more)),
    ]
    try:
        if model_type == "marian":
            return _marian(tokenizers[0], called, more, folder)
        if model_type == "mbart":
            return _mbart(tokenizers[0], called, values)
        if model_type == "m2m_100":
            return _m2m100(tokenizers[0], called, values)
        if model_type in ("t5", "mt5"):
            return _t5(tokenizers[0], values, model_type)
        return _bart(values) if model_type == "bart" else {}
    except KeyError as error:
        raise CheckpointError(f"{folder}: the vocabulary has no piece {error}, which says a language") from error


def _marian(vocabulary: Vocabulary, called: Sequence[str], more: Mapping[str, Any], folder: Path) -> dict[str, Task]:
    """Source and target from the name of the model, or source_lang and target_lang; several targets from the pieces
    >>code<< that stand before a source."""
    codes = {piece: i for i, piece in vocabulary.special.items() if piece[:2] == ">>" and piece[-2:] == "<<"}
    match = next((m for m in map(_OPUS_NAME.search, called) if m), None)
    source, target = (match[1], match[2]) if match else (more.get("source_lang"), more.get("target_lang"))
    if not isinstance(source, str) or not source or not (codes or (isinstance(target, str) and target)):
        raise CheckpointError(
            f"{folder}: nothing tells its languages: name the folder opus-mt-SOURCE-TARGET, or give source_lang and "
            "target_lang in tokenizer_config.json"
        )
    targets: dict[str, tuple[int, ...]] = {name: (codes[code],) for name, code in names(codes).items()}
    if not targets:
        targets = dict.fromkeys(_members(str(target)), ())
    sources = _members(source)
    found = {
        (s, t): Task(src_prefix=prefix, source=s, target=t) for s in sources for t, prefix in targets.items() if s != t
    }
    one = len(sources) == 1
    return {f"translate:{t}" if one else f"translate:{s}-{t}": task for (s, t), task in found.items()}


def _members(language: str) -> list[str]:
    """The languages of one of OPUS-MT's names: of a group, of several joined by "_" or "+", or the one."""
    if language in GROUPS:
        return GROUPS[language].split()
    parts = re.split(r"[_+]", language)
    if len(parts) > 1 and all(re.fullmatch(r"[a-z]{2,3}", part) for part in parts):
        return list(names(parts))
    return [short(language)[0] if short(language)[1] in ("", "Hans") else "_".join(short(language))]


def _mbart(vocabulary: Vocabulary, called: Sequence[str], values: Mapping[str, Any]) -> Mapping[str, Task]:
    there = set(vocabulary.special.values())
    codes = names(code for code in MBART_50 if code in there)
    ids = {name: vocabulary.id(code) for name, code in codes.items()}
    if not ids:
        raise KeyError("en_XX")
    if there.issuperset(MBART_50):
        start = (_id(values, "decoder_start_token_id", vocabulary, "</s>"),)
        return _among(ids, called, start)
    # Of 25 languages: the source's code comes last, and the decoder starts with the target's.
    match = next((m for m in map(_MBART_NAME.search, called) if m), None)
    stated = [m for m in map(_T5_TRANSLATION.fullmatch, _specific(values)) if m]
    wanted = [(m[1], m[2]) for m in ([match] if match else stated) if m[1] in ids and m[2] in ids]
    if not wanted:
        return AllPairs(ids, ids, (), code_last=True)
    every = AllPairs(ids, ids, (), code_last=True)
    return {
        f"translate:{t}" if len(wanted) == 1 else f"translate:{s}-{t}": every[f"translate:{s}-{t}"] for s, t in wanted
    }


def _m2m100(vocabulary: Vocabulary, called: Sequence[str], values: Mapping[str, Any]) -> Mapping[str, Task]:
    there = vocabulary.special.values()
    codes = [piece for piece in there if re.fullmatch(r"__[a-z]+__", piece)] or [p for p in NLLB if p in set(there)]
    ids = {name: vocabulary.id(code) for name, code in names(codes).items()}
    if not ids:
        raise KeyError("eng_Latn")
    return _among(ids, called, (_id(values, "decoder_start_token_id", vocabulary, "</s>"),))


def _among(ids: Mapping[str, int], called: Sequence[str], start: tuple[int, ...]) -> AllPairs:
    """All pairs, or those with English on one side if the model's name says so."""
    english = {"en": ids["en"]} if "en" in ids else ids
    name = " ".join(called)
    from_english = "one-to-many" in name or name.endswith("en-x")
    to_english = "many-to-one" in name or name.endswith("x-en")
    return AllPairs(english if from_english else ids, english if to_english else ids, start)


def _t5(vocabulary: Vocabulary, values: Mapping[str, Any], model_type: str) -> dict[str, Task]:
    """A task is said in words before the text; those that the configuration states, else the ones T5 was trained with."""
    texts = prefixes(values)
    if not texts:
        if model_type != "t5":  # mT5 was trained without any task: what others made of it mostly does one, unasked
            return {"summarize": Task()}
        texts = T5_PREFIXES
    found: dict[str, Task] = {}
    sources = {match[1] for match in map(_T5_TRANSLATION.fullmatch, texts) if match}
    for name, prefix in texts.items():
        ids = tuple(vocabulary.encode(prefix.rstrip()))
        match = _T5_TRANSLATION.fullmatch(name)
        if match:
            source, target = short(match[1])[0], short(match[2])[0]
            key = f"translate:{target}" if len(sources) == 1 else f"translate:{source}-{target}"
            found[key] = Task(src_prefix=ids, source=source, target=target)
        elif name == "summarization":
            found["summarize"] = Task(src_prefix=ids)
    question, context = (tuple(vocabulary.encode(text)) for text in ("question:", "context:"))
    return {**found, "answer": Task(src_prefix=question, separator=context)}


def _bart(values: Mapping[str, Any]) -> dict[str, Task]:
    """Summaries, which is what public BART models were trained for; the source begins with <s>."""
    first, start, forced = (values.get(k) for k in ("bos_token_id", "decoder_start_token_id", "forced_bos_token_id"))
    begin = (first,) if type(first) is int else ()
    fed = (start, forced) if type(start) is int and type(forced) is int else ()
    return {"summarize": Task(src_prefix=begin, tgt_prefix=fed)}


def prefixes(values: Mapping[str, Any]) -> dict[str, str]:
    """The words that a configuration states for each of its tasks, by the names it has for them."""
    stated = _specific(values).items()
    return {name: v["prefix"] for name, v in stated if isinstance(v, dict) and isinstance(v.get("prefix"), str)}


def stated_translations(values: Mapping[str, Any]) -> list[str]:
    """The names of translations among the tasks that a configuration has settings for ("translation_en_to_de")."""
    return [name for name in _specific(values) if _T5_TRANSLATION.fullmatch(name)]


def _specific(values: Mapping[str, Any]) -> Mapping[str, Any]:
    found = values.get("task_specific_params")
    return found if isinstance(found, dict) else {}


def _id(values: Mapping[str, Any], key: str, vocabulary: Vocabulary, piece: str) -> int:
    value = values.get(key)
    return value if type(value) is int and value >= 0 else vocabulary.id(piece)


def _read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} where there is no such file. Raises CheckpointError if it is none."""
    return read_object(path) if path.is_file() else {}
