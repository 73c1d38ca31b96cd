"""Trains a LoRA adapter of a language model with PEFT, in the format that vLLM reads."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from workloads.transfer.store import Store
from workloads.transfer.versions import Home
from workloads.transfer.work import Progress

from .samples import IGNORED, Tokens, read_samples, tokens_of
from .settings import TuneSettings
from .weights import get, lines_of, put, releases

_LAYERS: Final = "all-linear"
"""Layers with an adapter: every linear layer but the last one, as QLoRA found best
(huggingface.co/docs/peft/developer_guides/lora)."""
_SEED: Final = 1


Train = Callable[[Path, Path, TuneSettings, list[dict[str, Any]]], dict[str, Any]]
"""Writes the adapter of a model in a folder to another folder, and returns what else the record of
the result has."""


def run(settings: TuneSettings, store: Store, progress: Progress, train: Train) -> str:
    """Train an adapter and return its name with the version.

    Args:
        settings: Model, result and hyperparameters.
        store: Cloud Storage.
        progress: Takes the bytes that arrive.
        train: Trains.

    Raises:
        SampleError: The data cannot be used.
        TransferError: The model or the data cannot be read, or the result cannot be written.
    """
    model, result = Path(settings.work) / "model", Path(settings.work) / "result"
    samples = list(read_samples(lines_of(store, settings.bucket, settings.data)))
    source = get(store, settings.bucket, settings.model, model, progress)
    found = train(model, result, settings, samples)
    record = {
        **found,
        "data": settings.data,
        "epochs": settings.epochs,
        "model": source,
        "rank": settings.rank,
        "samples": len(samples),
    }
    version = put(store, Home(settings.bucket, settings.result), result, record, progress)
    return f"{settings.result}@{version}"


def trained(
    model: Path, result: Path, settings: TuneSettings, samples: list[dict[str, Any]]
) -> dict[str, Any]:
    """Train an adapter with PEFT; a `Train`. The record has the mean loss."""
    # they take a minute to load; the data is read before
    peft: Any = import_module("peft")
    transformers: Any = import_module("transformers")
    has_gpu = _torch().cuda.is_available()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model)
    rows = [tokens_of(each, tokenizer, settings.tokens) for each in samples]
    network: Any = transformers.AutoModelForCausalLM.from_pretrained(
        model, dtype="auto", device_map="auto" if has_gpu else None
    )
    network.config.use_cache = False
    network.enable_input_require_grads()  # gradients pass through layers that are not trained
    adapter = peft.LoraConfig(
        lora_alpha=settings.alpha,
        r=settings.rank,
        target_modules=_LAYERS,
        task_type="CAUSAL_LM",
    )
    transformers.set_seed(_SEED)  # the trainer does so only after the first values are drawn
    tuned: Any = peft.get_peft_model(network, adapter)
    pad: int | None = tokenizer.pad_token_id
    trainer: Any = transformers.Trainer(
        model=tuned,
        args=transformers.TrainingArguments(
            output_dir=str(Path(settings.work) / "trainer"),
            bf16=has_gpu,
            data_seed=_SEED,
            disable_tqdm=True,
            gradient_checkpointing=has_gpu,
            learning_rate=settings.learning_rate,
            logging_steps=10,
            lr_scheduler_type="cosine",
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch,
            report_to=[],
            save_strategy="no",
            seed=_SEED,
            use_cpu=not has_gpu,
        ),
        data_collator=partial(_padded, pad=0 if pad is None else int(pad)),
        train_dataset=rows,
    )
    trainer.train()
    tuned.save_pretrained(result)
    loss = round(float(trainer.state.log_history[-1]["train_loss"]), 4)
    return {"loss": loss, "packages": releases("peft", "torch", "transformers")}


def _torch() -> Any:
    return import_module("torch")


def _padded(batch: list[Tokens], pad: int) -> dict[str, Any]:
    """Return samples as tensors of one length."""
    tensor = _torch().tensor
    longest = max(len(each.ids) for each in batch)
    missing = [longest - len(each.ids) for each in batch]
    pairs = list(zip(batch, missing, strict=True))
    return {
        "attention_mask": tensor([[1] * len(each.ids) + [0] * gap for each, gap in pairs]),
        "input_ids": tensor([each.ids + [pad] * gap for each, gap in pairs]),
        "labels": tensor([each.labels + [IGNORED] * gap for each, gap in pairs]),
    }
