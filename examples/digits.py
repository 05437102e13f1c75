"""Train a small convolutional network on handwritten digits, and draw its learning curve.

`import plugrad as torch` is the only line that differs from a PyTorch program. It needs the extra `examples`:

    pip install "plugrad[examples]"
    python examples/digits.py --epochs 15 --out results
"""

import argparse
import pathlib

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import plugrad as torch

nn = torch.nn


def data(seed):
    """Return the training and the test set: images (N, 1, 8, 8) in [0, 1] and labels."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 1, 8, 8).astype("float32")
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    return map(torch.from_numpy, (x_train, y_train, x_test, y_test))


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train_one_epoch(model, loss_function, optimizer, x, y, batch_size=16):
    """Take one pass over the data in random order; return the mean loss."""
    model.train()
    total = 0.0
    for batch in torch.randperm(len(x)).split(batch_size):
        optimizer.zero_grad()
        loss = loss_function(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    return total / len(x)


def accuracy(model, x, y):
    """Return the fraction of images that the model labels rightly."""
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def draw(losses, accuracies, file):
    """Draw training loss and test accuracy against the epoch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    epochs = range(1, len(losses) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    left.semilogy(epochs, losses, marker="o", markersize=3)
    left.set(title="training loss", xlabel="epoch", ylabel="cross entropy")
    right.plot(epochs, [100 * value for value in accuracies], marker="o", markersize=3, color="tab:green")
    right.axhline(97, color="gray", linestyle="--", linewidth=1)
    right.set(title=f"test accuracy: {100 * accuracies[-1]:.1f} % at the end", xlabel="epoch", ylabel="%")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(file, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="where curve and weights go")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")

    torch.manual_seed(options.seed)
    x_train, y_train, x_test, y_test = data(options.seed)
    model = network()
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    losses, accuracies = [], []
    progress = tqdm(range(options.epochs), desc="epochs")
    for _ in progress:
        losses.append(train_one_epoch(model, loss_function, optimizer, x_train, y_train))
        accuracies.append(accuracy(model, x_test, y_test))
        progress.set_postfix(loss=f"{losses[-1]:.3f}", accuracy=f"{accuracies[-1]:.1%}")

    options.out.mkdir(parents=True, exist_ok=True)
    draw(losses, accuracies, options.out / "digits.png")
    torch.save(model.state_dict(), options.out / "digits.pt")
    print(f"accuracy on {len(x_test)} held-out digits: {accuracies[-1]:.2%}")


if __name__ == "__main__":
    main()
