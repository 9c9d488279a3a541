"""A token classifier of the kind that LLMLingua-2 uses, with a few hundred weights that mean nothing: made on the spot,
so that the real code can be run without the real weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def tiny_xlm_roberta(directory: Path, texts: Sequence[str], seed: int = 0) -> Path:
    """An XLM-RoBERTa for token classification, with a vocabulary learned from the texts, as a directory of the hub."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForTokenClassification

    tokenizer = Tokenizer(models.Unigram())
    space = normalizers.Replace(Regex(r"\s+"), " ")  # as in the real one, to which line ends are nothing
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), space, normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token="<unk>", initial_alphabet=[chr(n) for n in range(33, 127)]
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    names |= {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    torch.manual_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=len(fast),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=514,
        pad_token_id=fast.pad_token_id,
        num_labels=2,
    )
    model = XLMRobertaForTokenClassification(config)
    with torch.no_grad():
        model.classifier.weight.mul_(50.0)  # or all words would be about as likely
    model.save_pretrained(directory)
    fast.save_pretrained(directory)
    return directory
