"""Programs in the style of the well-known tutorials."""
import numpy as np

from .common import parameters_from


def program_polynomial_fit(torch):
    """Fit sin(x) with a cubic, first by hand, then with autograd, then with nn and optim."""
    x = torch.tensor(np.linspace(-np.pi, np.pi, 50).astype("float32"))
    y = torch.sin(x)
    start = [0.1, -0.2, 0.3, 0.05]
    by_hand = list(start)
    for _ in range(5):
        a, b, c, d = by_hand
        residual = 2 * (a + b * x + c * x ** 2 + d * x ** 3 - y)
        by_hand = [w - 1e-5 * (residual * x ** k).sum().item() for k, w in enumerate(by_hand)]
    weights = [torch.tensor(value, requires_grad=True) for value in start]
    for _ in range(5):
        loss = (sum(w * x ** k for k, w in enumerate(weights)) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-5 * w.grad
                w.grad = None
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
    model[0].weight.data.copy_(torch.tensor([start[1:]]))
    model[0].bias.data.fill_(start[0])
    powers = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.MSELoss(reduction="sum")(model(powers), y).backward()
        optimizer.step()
    return [by_hand, weights, loss, list(model.parameters())]


def program_char_rnn(torch):
    """A recurrent network from a Linear layer, trained on one name at a time."""
    random = np.random.RandomState(15)
    nn = torch.nn
    letters = "abcdef"

    class RNN(nn.Module):
        def __init__(self, inputs, hidden, outputs):
            super().__init__()
            self.hidden_size = hidden
            self.i2h = nn.Linear(inputs + hidden, hidden)
            self.h2o = nn.Linear(hidden, outputs)
            self.softmax = nn.LogSoftmax(dim=1)

        def forward(self, input, hidden):
            hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
            return self.softmax(self.h2o(hidden)), hidden

        def start(self):
            return torch.zeros(1, self.hidden_size)

    rnn = parameters_from(random, RNN(len(letters), 5, 2))
    criterion, losses = nn.NLLLoss(), []
    for name, category in (("abba", 0), ("deed", 1), ("fade", 1)):
        line = torch.zeros(len(name), 1, len(letters))
        for position, letter in enumerate(name):
            line[position][0][letters.index(letter)] = 1
        hidden = rnn.start()
        rnn.zero_grad()
        for row in line:
            output, hidden = rnn(row, hidden)
        loss = criterion(output, torch.tensor([category]))
        loss.backward()
        for p in rnn.parameters():
            p.data.add_(p.grad.data, alpha=-0.05)
        losses.append(loss.item())
    return [losses, output, output.topk(1), hidden, dict(rnn.named_parameters())]


def program_transformer_block(torch):
    """Causal self-attention and a feed-forward layer, written out."""
    random = np.random.RandomState(16)
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.project = nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.register_buffer("mask", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

        def attend(self, x):
            batch, length, width = x.size()
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                       for t in self.qkv(x).split(width, dim=2))
            scores = (q @ k.transpose(-2, -1)) / k.size(-1) ** 0.5
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            mixed = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, width)
            return self.project(mixed)

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    block = parameters_from(random, Block(8, 2))
    tokens = torch.tensor(random.randint(0, 11, (2, 5)))
    table = nn.Parameter(torch.tensor(random.standard_normal((11, 8)).astype("float32")))
    logits = block(F.embedding(tokens, table)) @ table.t()
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 11), tokens[:, 1:].reshape(-1))
    loss.backward()
    return [logits, loss, table.grad, {name: p.grad for name, p in block.named_parameters()},
            list(block.state_dict())]


def program_lstm_cell_by_hand(torch):
    random = np.random.RandomState(17)
    weight = torch.tensor(random.standard_normal((5, 12)) * 0.5, requires_grad=True)
    h, c = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    states = []
    for step in torch.tensor(random.standard_normal((4, 2, 2))):
        i, f, g, o = (torch.cat([step, h], dim=1) @ weight).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    stacked = torch.stack(states)
    stacked.norm().backward()
    return [stacked, weight.grad]


def program_variational_autoencoder(torch):
    random = np.random.RandomState(18)
    nn, F = torch.nn, torch.nn.functional
    encoder = parameters_from(random, nn.Linear(6, 4))
    decoder = parameters_from(random, nn.Linear(2, 6))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    data = torch.tensor((random.uniform(size=(8, 6)) > 0.5).astype("float32"))
    losses = []
    for _ in range(4):
        mean, log_variance = encoder(data).chunk(2, dim=1)
        noise = torch.tensor(random.standard_normal((8, 2)).astype("float32"))
        decoded = torch.sigmoid(decoder(mean + torch.exp(0.5 * log_variance) * noise))
        reconstruction = F.binary_cross_entropy(decoded, data, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        optimizer.zero_grad()
        (reconstruction + divergence).backward()
        optimizer.step()
        losses.append((reconstruction.item(), divergence.item()))
    return [losses, decoded]


def program_policy_gradient(torch):
    """REINFORCE on a fixed trajectory, with discounted returns."""
    random = np.random.RandomState(19)
    nn = torch.nn
    policy = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(dim=-1))
    parameters_from(random, policy)
    observed = torch.tensor(random.standard_normal((6, 3)).astype("float32"))
    actions, total, returns = torch.tensor([0, 1, 1, 0, 1, 0]), 0.0, []
    for reward in (1.0, 0.0, 2.0, -1.0, 0.5, 1.0)[::-1]:
        total = reward + 0.9 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    chosen = policy(observed).gather(1, actions[:, None]).squeeze(1)
    loss = -(chosen.log() * returns).sum()
    loss.backward()
    return [returns, loss, [p.grad for p in policy.parameters()]]
