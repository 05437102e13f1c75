"""Training loops: the losses of every step must agree."""
import numpy as np

from .common import parameters_from


def program_linear_regression(torch):
    random = np.random.RandomState(9)
    x = torch.tensor(random.standard_normal((20, 3)))
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64) + 0.1
    w = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    losses = []
    for _ in range(30):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in (w, b):
                parameter -= 0.1 * parameter.grad
                parameter.grad.zero_()
        losses.append(loss.item())
    return [losses, w, b]


def program_classifier(torch):
    random = np.random.RandomState(10)
    nn, F = torch.nn, torch.nn.functional
    model = parameters_from(random, nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-3)
    points = torch.tensor(random.standard_normal((30, 2)).astype("float32"))
    labels = torch.tensor(random.randint(0, 3, 30))
    losses = []
    for start in range(0, 30, 10):
        optimizer.zero_grad()
        logits = model(points[start:start + 10])
        loss = F.cross_entropy(logits, labels[start:start + 10], label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses += [loss.item(), float(norm)]
    accuracy = (model(points).argmax(dim=1) == labels).float().mean()
    return [losses, accuracy, list(model.parameters())]


def program_optimizers(torch):
    start = np.array([1.0, -2.0, 3.0])
    results = []
    for make in (lambda p: torch.optim.Adam(p, lr=0.1), lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
                 lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.5),
                 lambda p: torch.optim.Adagrad(p, lr=0.3),
                 lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True)):
        w = torch.tensor(start, requires_grad=True)
        optimizer = make([w])
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
        for _ in range(8):
            optimizer.zero_grad()
            ((w - 1) ** 4).sum().backward()
            optimizer.step()
            scheduler.step()
        results.append([w, w.grad, optimizer.param_groups[0]["lr"], sorted(optimizer.state_dict())])
    return results


def program_small_cnn(torch):
    random = np.random.RandomState(11)
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)
            self.conv2 = nn.Conv2d(4, 6, 3, padding=1, groups=2)
            self.norm = nn.BatchNorm2d(6)
            self.fc = nn.Linear(6 * 3 * 3, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.relu(self.norm(self.conv2(x)))
            return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)

    net = parameters_from(random, Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    images = torch.tensor(random.standard_normal((4, 1, 8, 8)).astype("float32"))
    target = torch.tensor([1, 3, 9, 0])
    losses = []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(net(images), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        prediction = net(images)
    return [losses, prediction, net.norm.running_mean, net.norm.running_var, net.norm.num_batches_tracked]


def program_gan_step(torch):
    random = np.random.RandomState(12)
    nn = torch.nn
    generator = parameters_from(random, nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)))
    critic = parameters_from(random, nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1)))
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01, betas=(0.5, 0.9))
                  for net in (generator, critic)]
    criterion, trace = nn.BCEWithLogitsLoss(), []
    for _ in range(3):
        real = torch.tensor(random.standard_normal((5, 2)).astype("float32"))
        fake = generator(torch.tensor(random.standard_normal((5, 2)).astype("float32")))
        optimizers[1].zero_grad()
        loss = criterion(critic(real), torch.ones(5, 1)) + criterion(critic(fake.detach()), torch.zeros(5, 1))
        loss.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        deceit = criterion(critic(fake), torch.ones(5, 1))
        deceit.backward()
        optimizers[0].step()
        trace.append((loss.item(), deceit.item()))
    return [trace, list(generator.parameters()), list(critic.parameters())]


def program_gradient_penalty(torch):
    """Wasserstein critic: the loss holds the norm of a gradient."""
    random = np.random.RandomState(13)
    nn = torch.nn
    critic = parameters_from(random, nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1)).double())
    points = torch.tensor(random.standard_normal((6, 3)), requires_grad=True)
    score = critic(points)
    (slope,) = torch.autograd.grad(score.sum(), points, create_graph=True)
    penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
    (score.mean() + 10 * penalty).backward()
    return [score, slope, penalty, points.grad, [p.grad for p in critic.parameters()]]


def program_maml(torch):
    """Meta-gradient through two inner steps of gradient descent."""
    random = np.random.RandomState(14)
    shapes = [(1, 6), (6,), (6, 1), (1,)]
    weights = [torch.tensor(random.standard_normal(shape), requires_grad=True) for shape in shapes]
    x = torch.tensor(np.linspace(-2, 2, 8)[:, None])

    def predict(x, w):
        return torch.tanh(x @ w[0] + w[1]) @ w[2] + w[3]

    total = 0
    for phase in (0.0, 1.0):
        fast, target = weights, torch.sin(x + phase)
        for _ in range(2):
            inner = ((predict(x[::2], fast) - target[::2]) ** 2).mean()
            grads = torch.autograd.grad(inner, fast, create_graph=True)
            fast = [w - 0.1 * g for w, g in zip(fast, grads, strict=True)]
        total = total + ((predict(x[1::2], fast) - target[1::2]) ** 2).mean()
    total.backward()
    return [total, [w.grad for w in weights]]
