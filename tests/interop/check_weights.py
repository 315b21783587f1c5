#!/usr/bin/env python3
"""Checks weights in and out against the packages transformers and safetensors: models that transformers made with random
weights compute the same in gpipe, models that gpipe trained compute the same in transformers, and what comes back is the
same bit for bit.

Usage: check_weights.py GPIPE [--minilm DIR]
Needs torch, transformers, safetensors. Exit status 0 when everything agrees within 1e-4, 1 when not, 77 without packages.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import safetensors
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"check_weights: skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-4
transformers.logging.set_verbosity_error()
failures = 0


def report(what, difference, largest):
    global failures
    good = difference <= TOLERANCE
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what}: largest difference {difference:.2e} of values up to {largest:.2f}")


def claim(what, good):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what}")


class Checks:
    def __init__(self, gpipe, folder):
        self.program, self.folder, self.runs = gpipe, pathlib.Path(folder), 0

    def gpipe(self, *arguments):
        result = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if result.returncode != 0:
            raise SystemExit(f"gpipe {' '.join(map(str, arguments))}: status {result.returncode}\n{result.stderr}")
        return result.stdout

    def path(self, name):
        self.runs += 1
        return self.folder / f"{self.runs}-{name}"

    def predict(self, run, inputs):
        given, made = self.path("inputs.safetensors"), self.path("outputs.safetensors")
        save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, str(given))
        self.gpipe("predict", run, "--inputs", given, "--out", made)
        return load_file(str(made))["outputs"]

    def compare(self, what, run, inputs, expected):
        found = self.predict(run, inputs)
        if found.shape != expected.shape:
            return report(f"{what} {tuple(found.shape)} instead of {tuple(expected.shape)}", float("inf"), 0)
        report(f"{what} {list(found.shape)}", (found - expected).abs().max().item(), expected.abs().max().item())

    def imported(self, folder, *options):
        run = self.path("run")
        self.gpipe("import", folder, "--out", run, *options)
        return run

    def there_and_back(self, what, run):
        """Export of an imported run gives the tensors that were imported, and its import the same run."""
        out = self.path("exported")
        self.gpipe("export", run, "--out", out)
        back = self.imported(out)
        self.gpipe("inspect", "--diff", run, back)
        claim(f"{what}: out and in again is the same bit for bit", True)
        return out


def randomise(model, deviation=0.1):
    """Random everywhere: also biases and norms, which start as 0 and 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = name.endswith("weight") and parameter.dim() == 1
            parameter.normal_(mean=1.0 if norm else 0.0, std=0.2 if norm else deviation)
    return model.eval()


def forward(model, inputs):
    with torch.no_grad():
        result = model(**{name: tensor.long() for name, tensor in inputs.items()})
    if "prediction_logits" in result:
        return result.prediction_logits  # of both heads
    return result.logits if "logits" in result else result.last_hidden_state


def check_gpt2(checks):
    sizes = {
        "small": dict(n_layer=2, n_head=2, n_embd=32, n_positions=40, vocab_size=101),
        "124M": dict(),
    }
    for name, size in sizes.items():
        config = transformers.GPT2Config(**size)
        model = randomise(transformers.GPT2LMHeadModel(config), 0.2 if name == "small" else 0.06)
        folder = checks.path("gpt2")
        model.save_pretrained(folder, safe_serialization=True)
        inputs = {"input_ids": torch.randint(0, config.vocab_size, (2, 33), dtype=torch.int32)}
        expected = forward(model, inputs)
        run = checks.imported(folder)
        checks.compare(f"GPT-2 {name}", run, inputs, expected)
        exported = checks.there_and_back(f"GPT-2 {name}", run)
        again = transformers.GPT2LMHeadModel.from_pretrained(exported).eval()
        ours, theirs = again.state_dict(), model.state_dict()
        claim(f"GPT-2 {name}: transformers reads gpipe's export, all {len(theirs)} tensors the same",
              ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in theirs))
    divided = checks.path("divided")
    checks.gpipe("export", run, "--out", divided, "--shard-size", "100MB")
    count, ours = len(list(divided.glob("*.safetensors"))), transformers.GPT2LMHeadModel.from_pretrained(divided).state_dict()
    claim(f"GPT-2 {name}: transformers reads gpipe's export in {count} shards, all tensors the same",
          count > 1 and ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in theirs))
    shards = checks.path("shards")
    model.save_pretrained(shards, safe_serialization=True, max_shard_size="100MB")
    count = len(list(shards.glob("*.safetensors")))
    checks.compare(f"GPT-2 124M in {count} shards", checks.imported(shards), inputs, expected)
    for dtype in (torch.bfloat16, torch.float16):
        folder = checks.path("half")
        model.to(dtype).save_pretrained(folder, safe_serialization=True)
        checks.compare(f"GPT-2 124M saved as {dtype}", checks.imported(folder), inputs, forward(model.float(), inputs))
    bare = checks.path("bare")
    model.transformer.save_pretrained(bare, safe_serialization=True)
    checks.compare("GPT-2 124M without the prefix of the names", checks.imported(bare), inputs, forward(model, inputs))


def check_bert(checks):
    config = transformers.BertConfig(num_hidden_layers=3, num_attention_heads=4, hidden_size=64, intermediate_size=200,
                                     max_position_embeddings=48, vocab_size=97, num_labels=5)
    inputs = {"input_ids": torch.randint(0, 97, (4, 37), dtype=torch.int32),
              "token_type_ids": torch.randint(0, 2, (4, 37), dtype=torch.int32),
              "attention_mask": torch.ones(4, 37, dtype=torch.int32)}
    inputs["attention_mask"][1, 30:] = 0
    inputs["attention_mask"][2, 3:] = 0
    inputs["attention_mask"][3, 7:9] = 0
    for name in ("BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification", "BertForNextSentencePrediction",
                 "BertModel"):
        model = randomise(getattr(transformers, name)(config))
        folder = checks.path("bert")
        model.save_pretrained(folder, safe_serialization=True)
        expected = forward(model, inputs)
        run = checks.imported(folder)
        checks.compare(name, run, inputs, expected)
        exported = checks.there_and_back(name, run)
        kept = getattr(transformers, name).from_pretrained(exported, **({"add_pooling_layer": False} if name == "BertModel" else {}))
        report(f"{name}: transformers reads gpipe's export", (forward(kept.eval(), inputs) - expected).abs().max().item(),
               expected.abs().max().item())
        if name == "BertForPreTraining":
            tokens = {key: tensor.long() for key, tensor in inputs.items()}
            sentences = model(**tokens).seq_relationship_logits.detach()
            checks.compare(f"{name}, sentences", checks.imported(folder, "--head", "next_sentence"), inputs, sentences)
            report(f"{name}, sentences: transformers reads gpipe's export",
                   (kept(**tokens).seq_relationship_logits - sentences).abs().max().item(), sentences.abs().max().item())
    pooled = model(**{key: tensor.long() for key, tensor in inputs.items()}).pooler_output.detach()
    checks.compare("BertModel, pooled", checks.imported(folder, "--head", "pooled"), inputs, pooled)
    base = randomise(transformers.BertForMaskedLM(transformers.BertConfig()), 0.06)
    folder = checks.path("base")
    base.save_pretrained(folder, safe_serialization=True)
    inputs = {"input_ids": torch.randint(0, 30522, (2, 70), dtype=torch.int32)}
    checks.compare("BERT-base, masked", checks.imported(folder), inputs, forward(base, inputs))


class ResNet(torch.nn.Module):
    """As torchvision has it: the same names, so its weights are these."""

    class Block(torch.nn.Module):
        def __init__(self, before, width, stride, bottleneck):
            super().__init__()
            sizes = [(before, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)] if bottleneck else [
                (before, width, 3, stride), (width, width, 3, 1)]
            self.count = len(sizes)
            for i, (inputs, outputs, kernel, step) in enumerate(sizes, 1):
                setattr(self, f"conv{i}", torch.nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False))
                setattr(self, f"bn{i}", torch.nn.BatchNorm2d(outputs))
            after = sizes[-1][1]
            self.downsample = None
            if stride != 1 or before != after:
                self.downsample = torch.nn.Sequential(torch.nn.Conv2d(before, after, 1, stride, bias=False),
                                                      torch.nn.BatchNorm2d(after))

        def forward(self, x):
            y = x
            for i in range(1, self.count + 1):
                y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
                y = y if i == self.count else torch.relu(y)
            return torch.relu(y + (self.downsample(x) if self.downsample else x))

    def __init__(self, blocks, bottleneck, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(64)
        before = 64
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(self.Block(before, 64 << stage, 2 if stage and i == 0 else 1, bottleneck))
                before = (64 << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(*layers))
        self.fc = torch.nn.Linear(before, classes)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def check_resnet(checks):
    for name, blocks, bottleneck in (("resnet18", (2, 2, 2, 2), False), ("resnet50", (3, 4, 6, 3), True)):
        model = ResNet(blocks, bottleneck, 10)
        with torch.no_grad():  # moving averages and norms as after some training
            for _, module in model.named_modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.running_mean.normal_(std=0.1)
                    module.running_var.uniform_(0.5, 1.5)
                    module.weight.uniform_(0.5, 1.5)
                    module.bias.normal_(std=0.1)
        model.eval()
        file = checks.path(f"{name}.safetensors")
        save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()}, str(file))
        run = checks.imported(file)
        images = torch.randn(2, 224, 224, 3)
        with torch.no_grad():
            expected = model(images.permute(0, 3, 1, 2))
        checks.compare(f"{name} under torchvision's names", run, {"inputs": images}, expected)
        exported = checks.there_and_back(name, run)
        again = ResNet(blocks, bottleneck, 10)
        again.load_state_dict(load_file(str(exported / "model.safetensors")))
        ours, theirs = again.state_dict(), model.state_dict()
        claim(f"{name}: PyTorch reads gpipe's export, every tensor the same",
              all(torch.equal(ours[key], theirs[key]) for key in theirs))


def check_trained(checks):
    """What gpipe trained itself."""
    corpus, config = checks.path("corpus.txt"), checks.path("run.yaml")
    corpus.write_text("".join(f"the cat number {i * 37 % 211:03} sat there.\n" for i in range(400)))
    for name, context in (("gpt2", 32), ("bert", 32)):
        run = checks.path("trained")
        config.write_text(f"model: {{name: {name}, layers: 2, heads: 2, width: 32, context: {context}}}\n"
                          f"data: {{text: {corpus}}}\npipeline: {{partitions: 2, micro_batches: 2}}\n"
                          f"train: {{batch: 8, steps: 50, out: {run}}}\n")
        checks.gpipe("train", config)
        exported = checks.path("exported")
        checks.gpipe("export", run, "--out", exported)
        auto = transformers.AutoModelForCausalLM if name == "gpt2" else transformers.AutoModelForMaskedLM
        model = auto.from_pretrained(exported).eval()
        inputs = {"input_ids": torch.randint(0, model.config.vocab_size, (3, 20), dtype=torch.int32)}
        checks.compare(f"{name} trained by gpipe, read by transformers", run, inputs, forward(model, inputs))
        weights = run / "checkpoints" / "latest" / "model.safetensors"
        with safetensors.safe_open(str(weights), "pt") as file:
            names = list(file.keys())
            finite = all(torch.isfinite(file.get_tensor(key)).all() for key in names)
        claim(f"{name}: the package safetensors reads the checkpoint, {len(names)} tensors", bool(names) and bool(finite))


def check_minilm(checks, folder):
    texts = ["A cat sat on the mat.", "Pipeline parallelism trains networks too big for one device, doesn't it?", "hello",
             "Ein Satz auf Deutsch, mit Umlauten: äöü, und 数字 42."]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    inputs = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    expected = forward(model, inputs)
    run = checks.imported(folder)
    checks.compare("MiniLM-L6, real weights", run, inputs, expected)
    mask = inputs["attention_mask"].unsqueeze(-1)

    def embeddings(hidden):
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

    found = embeddings(checks.predict(run, inputs))
    report("MiniLM-L6, embeddings of sentences", (found - embeddings(expected)).abs().max().item(), found.abs().max().item())
    checks.there_and_back("MiniLM-L6", run)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpipe")
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2 as transformers has it")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors {safetensors.__version__}")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(options.gpipe, folder)
        check_gpt2(checks)
        check_bert(checks)
        check_resnet(checks)
        check_trained(checks)
        if options.minilm:
            check_minilm(checks, options.minilm)
        else:
            print("skip MiniLM-L6: no folder is given")
    print("everything agrees" if failures == 0 else f"{failures} checks failed")
    sys.exit(0 if failures == 0 else 1)


if __name__ == "__main__":
    main()
