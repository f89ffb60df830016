"""Other translators as programs for a Python that has them: each answers lines of JSON as `worker` does.

They are texts, for nothing of them is imported here; each calls its library as its documentation says. "seconds" is from
texts to texts, "tokenizing" what of it the tokenizer took, where that is not a part of the library.
"""

from __future__ import annotations

# What all of them share: `opened(opening)` and `translate(request)` are their own.
LOOP = """
import json, os, sys, time
channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
def peak():
    try:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    except OSError:
        return None
def main():
    is_open = False
    for line in sys.stdin:
        request = json.loads(line)
        if not is_open:
            reply = opened(request)
            is_open = True
        else:
            start = time.perf_counter()
            reply = translate(request)
            reply.setdefault("seconds", time.perf_counter() - start)
        reply["peak_bytes"] = peak()
        channel.write(json.dumps(reply) + "\\n")
        channel.flush()
"""

# Texts of like length share a batch, so that little of it is padding: that is done for it here.
TRANSFORMERS = (
    LOOP
    + """
def opened(opening):
    global torch, model, tokenizer
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, __version__
    torch.set_num_threads(opening["threads"])
    tokenizer = AutoTokenizer.from_pretrained(opening["model"])
    model = AutoModelForSeq2SeqLM.from_pretrained(opening["model"], dtype=torch.float32).eval()
    translate({"texts": opening["warm"], "batch_size": 8, "beam": 1, "length": 4})
    return {"version": __version__, "how": "float32"}
def translate(request):
    texts, size = request["texts"], request["batch_size"]
    tokenizing, start = 0.0, time.perf_counter()
    rows = tokenizer(texts).input_ids
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    tokenizing += time.perf_counter() - start
    found = [""] * len(texts)
    for at in range(0, len(order), size):
        batch = order[at : at + size]
        start = time.perf_counter()
        inputs = tokenizer.pad({"input_ids": [rows[i] for i in batch]}, return_tensors="pt")
        tokenizing += time.perf_counter() - start
        with torch.inference_mode():
            ids = model.generate(
                **inputs, num_beams=request["beam"], do_sample=False, max_new_tokens=request["length"] or 512
            )
        start = time.perf_counter()
        for i, text in zip(batch, tokenizer.batch_decode(ids, skip_special_tokens=True)):
            found[i] = text
        tokenizing += time.perf_counter() - start
    return {"texts": found, "tokenizing": tokenizing}
main()
"""
)

# Converted once, before anything is timed; numbers are quantised when it is loaded. Which kind of numbers, how many
# workers and which batches are fastest here is tried out ("tune"): CTranslate2 at its best.
CTRANSLATE2 = (
    LOOP
    + """
def opened(opening):
    global ctranslate2, settings, tokenizer, folder
    import ctranslate2
    from transformers import AutoTokenizer
    from ctranslate2.converters import TransformersConverter
    folder, threads = opening["folder"], opening["threads"]
    if not os.path.exists(os.path.join(folder, "model.bin")):
        TransformersConverter(opening["model"]).convert(folder, force=True)
    tokenizer = AutoTokenizer.from_pretrained(opening["model"])
    kinds = ctranslate2.get_supported_compute_types("cpu")
    kinds = [kind for kind in ("int8", "bfloat16", "float32") if kind in kinds and kind in opening["kinds"]]
    best = None
    for kind in kinds:
        for workers in sorted({1, threads}):
            load(kind, workers, threads // workers)
            for size in opening["sizes"]:
                request = {"texts": opening["tune"], "beam": opening["beam"], "length": opening["length"], "size": size}
                seconds = []
                for _ in range(3):
                    start = time.perf_counter()
                    translate(request)
                    seconds.append(time.perf_counter() - start)
                if best is None or min(seconds[1:]) < best[0]:
                    best = min(seconds[1:]), kind, workers, size
    _, kind, workers, size = best
    load(kind, workers, threads // workers)
    settings = {"size": size}
    translate({"texts": opening["warm"], "beam": 1, "length": 4})
    how = f"{kind}, {workers} worker{'s' * (workers > 1)} of {threads // workers}, batches of {size}"
    return {"version": ctranslate2.__version__, "how": how}
def load(kind, workers, threads):
    global translator
    translator = None
    translator = ctranslate2.Translator(
        folder, device="cpu", compute_type=kind, inter_threads=workers, intra_threads=threads
    )
def translate(request):
    start = time.perf_counter()
    rows = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(request["texts"]).input_ids]
    tokenizing = time.perf_counter() - start
    results = translator.translate_batch(
        rows,
        max_batch_size=request.get("size") or settings["size"],
        beam_size=request["beam"],
        max_decoding_length=request["length"] or 512,
    )
    start = time.perf_counter()
    ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return {"texts": texts, "tokenizing": tokenizing + time.perf_counter() - start}
main()
"""
)

# int8, greedy, with its shortlist; texts to batches by itself.
SLIMT = (
    LOOP
    + """
def opened(opening):
    global service, model
    from importlib.metadata import version
    from slimt import Config, Model, Package, Service
    config = Config()
    config.encoder_layers, config.decoder_layers = opening["encoder_layers"], opening["decoder_layers"]
    config.num_heads = opening["heads"]
    model = Model(config, Package(**opening["files"]))
    threads = opening["threads"]
    service = Service(workers=threads)
    translate({"texts": opening["warm"]})
    return {"version": version("slimt"), "how": "int8, %d worker%s" % (threads, "s" * (threads > 1))}
def translate(request):
    return {"texts": [response.target.text for response in service.translate(model, request["texts"])]}
main()
"""
)
