# SPDX-License-Identifier: Apache-2.0
"""Callbacks on the real frameworks: each step is marked once, evaluation is a section, and the training's result is the same.

usage: test_callbacks.py LULL LIBLULL"""
import json
import os
import socket
import subprocess
import sys
import unittest

import case
import host
import lull

PACKAGES = os.environ.get("LULL_FRAMEWORKS") or os.path.expanduser("~/.cache/lull/frameworks")

# What all three trainings share. Marks are written down as text: S a step, ( and ) the section.
COMMON = """
import glob, os, sys, tempfile
sys.path.append(glob.glob(os.path.join({packages!r}, "lib", "python3.*", "site-packages"))[0])
import torch
import lull, lull.callbacks, lull._marks

marks = []

class Section:
    def __enter__(self): marks.append("(")
    def __exit__(self, *_): marks.append(")")

def listen(module):
    module.step, module.section = lambda: marks.append("S"), lambda name: Section()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        out = self.layer(x)
        return {{"loss": ((out - labels) ** 2).mean(), "logits": out}}

class Data(torch.utils.data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, i): return {{"x": torch.ones(4) * i / 32, "labels": torch.tensor([i / 32.0])}}

class Events:
    def __init__(self): self.seen = []
    def __getattr__(self, name):
        if not name.startswith("on_"): raise AttributeError(name)
        return lambda *_: self.seen.append(name)

def weights(model):
    return " ".join(f"{{value:.9f}}" for value in torch.cat([p.detach().flatten() for p in model.parameters()]))
"""

HUGGINGFACE = COMMON + """
from transformers import Trainer, TrainingArguments
import lull.callbacks._huggingface as module

def train(evaluation, *callbacks):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2,
                                      evaluation_strategy=evaluation, eval_steps=3, report_to=[], disable_tqdm=True, use_cpu=True,
                                      save_strategy="no", log_level="error")
        trainer = Trainer(model=Model(), args=arguments, train_dataset=Data(), eval_dataset=Data(), callbacks=list(callbacks))
        trainer.train()
        trainer.evaluate()
        trainer.predict(Data())
        return weights(trainer.model)

plain = train("steps")
listen(module)
events = Events()
same = train("steps", lull.callbacks.huggingface(events))
print("".join(marks))
marks.clear()
train("epoch", lull.callbacks.huggingface())
print("".join(marks))
print(same == plain, events.seen.count("on_step_begin"), events.seen.count("on_epoch_end"))
import lull.zeus
lull.zeus.GlobalPowerLimitOptimizer = lambda *arguments, **keywords: (arguments, keywords)
print(lull.zeus.HFGlobalPowerLimitOptimizer("monitor", pl_step=50)._callbacks)
"""

# Lightning takes Debian's PyTorch, 1.13.0a0, for an older one, in which a class had another name; and its sharded tensors,
# which are not used here, cannot be imported by Python 3.11.
LIGHTNING = COMMON + """
torch._UntypedStorage = torch.UntypedStorage
import pytorch_lightning
pytorch_lightning.LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None
import lull.callbacks._lightning as module

class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()
    def training_step(self, batch, number): return self.model(**batch)["loss"]
    def validation_step(self, batch, number): return self.model(**batch)["loss"]
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)

def train(*callbacks):
    trainer = pytorch_lightning.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches=2, logger=False,
                                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                        num_sanity_val_steps=0, callbacks=list(callbacks))
    loader = torch.utils.data.DataLoader(Data(), 4)
    model = Module()
    trainer.fit(model, loader, loader)
    trainer.validate(model, loader, verbose=False)
    return weights(model)

plain = train()
listen(module)
events = Events()
same = train(lull.callbacks.lightning(events))
print("".join(marks))
print(same == plain, events.seen.count("on_step_begin"), events.seen.count("on_epoch_end"))
"""

ACCELERATE = COMMON + """
from accelerate import Accelerator
import lull.callbacks._accelerate as module

def train(has_marks):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = Model()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1),
                                                   torch.utils.data.DataLoader(Data(), 4))
    lull_marks = lull.callbacks.accelerate(accelerator) if has_marks else None
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
    if lull_marks:
        with lull_marks.evaluation():
            pass
        lull_marks.remove()
        optimizer.step()
    return weights(model)

plain = train(False)
listen(module)
same = train(True)
print("".join(marks))
print(same == plain)
try:
    lull.callbacks.accelerate(Accelerator(cpu=True))
except ValueError as error:
    print(error)
"""


@unittest.skipUnless(os.path.exists(os.path.join(PACKAGES, "complete")), "no frameworks; tools/install-deps installs them")
@unittest.skipUnless(subprocess.run([case.DEBIAN_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False)
                     .returncode == 0, "no PyTorch (Debian: python3-torch)")
class Frameworks(unittest.TestCase):
    def run_python(self, code):
        done = subprocess.run([case.DEBIAN_PYTHON, "-c", code.format(packages=PACKAGES)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines() if not line.startswith("{")]

    def test_huggingface(self):
        steps, epochs, rest, optimizer = self.run_python(HUGGINGFACE)
        # 32 samples, batches of 4, two per step: 4 steps per epoch. Then evaluate(), and predict().
        self.assertEqual(steps, "SSS()SSS()SS()()")
        self.assertEqual(epochs, "SSSS()SSSS()()()")
        self.assertEqual(rest, "True 8 2")
        self.assertEqual(optimizer, "((('monitor',), {'pl_step': 50}),)")

    def test_lightning(self):
        marks, rest = self.run_python(LIGHTNING)
        self.assertEqual(marks, "SSSS()SSSS()()")
        self.assertEqual(rest, "True 16 2")

    def test_accelerate(self):
        self.assertEqual(self.run_python(ACCELERATE),
                         ["SS()", "True", "the accelerator has no optimizer; call accelerator.prepare() first"])


# A real training of two ranks with the Trainer, on CPUs, beside an emulated GPU for each rank.
DDP = """
import glob, os, sys, tempfile
sys.path.append(glob.glob(os.path.join({packages!r}, "lib", "python3.*", "site-packages"))[0])
sys.path.insert(0, {tests!r})
sys.argv[1:] = [{lull!r}, {library!r}]
import case
case.on_gpu(int(os.environ["LOCAL_RANK"]))
import time, torch, lull
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, x, labels):
        time.sleep(0.02)
        return {{"loss": ((self.layer(x) - labels) ** 2).mean()}}

class Data(torch.utils.data.Dataset):
    def __len__(self): return 4096
    def __getitem__(self, i): return {{"x": torch.ones(64), "labels": torch.ones(64)}}

with tempfile.TemporaryDirectory() as folder, lull.window("training"):
    arguments = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=60, report_to=[], disable_tqdm=True, use_cpu=True,
                                  save_strategy="no", log_level="error", ddp_backend="gloo")
    Trainer(model=Model(), args=arguments, train_dataset=Data(), callbacks=[lull.callbacks.huggingface()]).train()
"""


class Distributed(Frameworks):
    test_huggingface = test_lightning = test_accelerate = None

    def test_ddp_with_the_trainer_under_lull_run(self):
        directory = host.Directory()
        self.addCleanup(directory.cleanup)
        program = os.path.join(directory.name, "train.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(DDP.format(packages=PACKAGES, tests=os.path.join(case.PACKAGE, "tests"), lull=case.LULL,
                                  library=case.LIBLULL))
        # PyTorch 1.13 cannot leave the ranks' output alone under Python 3.11: both choices have to be given.
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        done = case.in_node(case.DEBIAN_PYTHON, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1",
                            "--master_addr", "127.0.0.1", "--master_port", str(port), "--nproc_per_node", "2", program,
                            directory=directory.name, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = lull.report(directory.name)
        self.assertEqual(len(report.gpus), 2, json.dumps(report.document["notes"]))
        self.assertGreater(report.managed.iterations + report.descent.iterations, 20)
        (row,) = report.energy.windows
        self.assertEqual((row.name, row.count, row.unmeasured), ("training", 2, 0))
        self.assertGreater(row.energy_j, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
