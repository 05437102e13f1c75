"""Train a network with dropout, write checkpoints as it goes, and go on from the last one after a crash.

However often it is killed, it ends with the parameters of a run that was not, bit for bit:

    python examples/resume.py
    python examples/resume.py --stop-after 47       # ends in the middle of an epoch, as if it were killed
    python examples/resume.py --resume
"""

import argparse
import hashlib
import os
import pathlib

import plugrad as torch

nn = torch.nn


def data():
    """Return points of two interleaved spirals (600, 2), and which one each is of (600,)."""
    angle = torch.linspace(0.5, 9.0, 300)
    arm = torch.stack([angle * angle.cos(), angle * angle.sin()], 1) / 9
    return torch.utils.data.TensorDataset(torch.cat([arm, -arm]), torch.cat([torch.zeros(300), torch.ones(300)]))


def digest(model) -> str:
    """Return a fingerprint of a model's parameters."""
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().numpy().tobytes())
    return sha.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint", type=pathlib.Path, default=pathlib.Path("resume.pt"))
    parser.add_argument("--every", type=int, default=10, help="steps from one checkpoint to the next")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--stop-after", type=int, help="end without a word after so many steps")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = torch.utils.data.DataLoader(data(), batch_size=20, shuffle=True)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    first = step = 0
    if options.resume:
        saved = torch.load(options.checkpoint)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
        first, step = saved["epoch"], saved["step"]
        print(f"goes on in epoch {first + 1} after step {step}")

    loss_function = nn.BCEWithLogitsLoss()
    for epoch in range(first, options.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_function(model(x)[:, 0], y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % options.every == 0:
                state = {name: part.state_dict() for name, part in parts.items()}
                torch.save({**state, "random": torch.get_rng_state(), "epoch": epoch, "step": step}, options.checkpoint)
            if step == options.stop_after:
                os._exit(1)
    print(f"loss {loss.item():.4f}, parameters {digest(model)}")


if __name__ == "__main__":
    main()
