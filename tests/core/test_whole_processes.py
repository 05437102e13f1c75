"""Programs from start to end: with tracers and profilers on, forks in hooks, and while Python ends."""

import subprocess
import sys
import textwrap

import pytest

PROGRAMS = {
    "a graph that is alive at the end": """
        import atexit
        x = torch.ones(3, requires_grad=True)
        loss = (x * 2).exp().sum()

        @atexit.register
        def late():
            loss.backward()
            torch.nn.functional.softplus(x)
            torch.optim.Adam([x]).step()
        """,
    "backward in the finalizer of a global": """
        class Owner:
            def __init__(self):
                self.x = torch.ones(3, requires_grad=True)
                self.loss = (self.x * 2).sum()

            def __del__(self):
                self.loss.backward()
                assert self.x.grad.tolist() == [2.0] * 3
                with torch.no_grad():
                    self.x.add_(1)

        owner = Owner()
        """,
    "daemon threads at work": """
        import threading
        begun = threading.Barrier(4)

        def work():
            waiting = True
            while True:
                x = torch.ones(100, requires_grad=True)
                (x * 2).exp().sum().backward()
                with torch.no_grad():
                    x.detach().numpy()
                    x.add_(1)
                if waiting:
                    waiting = False
                    begun.wait(60)

        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        begun.wait(60)
        """,
    "memory shared with NumPy at the end": """
        import numpy
        x = torch.ones(3, requires_grad=True)
        kept = x * x, x.detach().numpy(), torch.from_numpy(numpy.ones(3))
        kept[1][0] = 5
        """,
    "tracers and profilers": """
        import threading
        calls = []

        def tracer(frame, event, arg):
            calls.append(event)
            return tracer

        for module in sys, threading:
            module.settrace(tracer)
            module.setprofile(lambda *event: None)

        def work():
            x = torch.ones(3, requires_grad=True)
            y = torch.ones(3, requires_grad=True)
            given = torch.ones(3)
            (x + y).backward(given)
            x.grad.add_(5)  # whose memory is nobody else's, though a tracer holds frames
            assert y.grad.tolist() == given.tolist() == [1.0] * 3
            with torch.inference_mode():
                assert (x * 2).is_inference()
            net = torch.nn.Linear(3, 2)
            net(x).sum().backward()
            torch.optim.Adam(net.parameters()).step()
            assert torch.is_grad_enabled()

        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        sys.settrace(None)
        assert len(calls) > 100
        """,
    "forks in hooks": """
        import os
        x, children = torch.ones(3, requires_grad=True), []

        def hook(*given):
            child = os.fork()
            if child == 0:
                with torch.enable_grad():
                    z = torch.ones(2, requires_grad=True)
                    (z * 2).sum().backward()
                os._exit(z.grad.tolist() != [2.0, 2.0])
            children.append(child)

        x.register_hook(hook)
        x.register_post_accumulate_grad_hook(hook)
        (x * 2).sum().backward()
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    program = "import sys\nimport plugrad as torch\n" + textwrap.dedent(PROGRAMS[name])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and not result.stderr, result.stderr
