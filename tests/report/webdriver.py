"""A real browser, driven through the WebDriver protocol with nothing but the standard library."""

import json
import shutil
import subprocess
import time
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """One window of headless Chromium."""

    def __init__(self, folder, width=1100, height=900, dark=False):
        self.log = (folder / "driver.log").open("w+")
        self.process = subprocess.Popen([DRIVER, "--port=0"], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        port = None
        while port is None and time.monotonic() < deadline:
            time.sleep(0.05)
            words = (folder / "driver.log").read_text().split("on port ")
            port = words[-1].split(".")[0].split()[0] if len(words) > 2 else None
        self.root = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu"]
        arguments += [f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"]
        arguments += ["--blink-settings=preferredColorScheme=0"] if dark else []
        wanted = {"binary": CHROMIUM, "args": arguments}
        held = self.ask(
            "POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": wanted}}}
        )
        self.root += f"/session/{held['sessionId']}"

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        self.ask("POST", "/url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def pointer(self, selector, x=0, y=0, press=False):
        """Move the pointer to a place of an element, counted from its middle, and perhaps press."""
        element = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        steps = [{"type": "pointerMove", "origin": element, "x": x, "y": y, "duration": 0}]
        if press:
            steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.ask(
            "POST",
            "/actions",
            {"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]},
        )

    def keys(self, *values):
        steps = [{"type": kind, "value": key} for key in values for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def picture(self):
        return self.ask("GET", "/screenshot")

    def printed(self):
        return self.ask("POST", "/print", {})

    def close(self):
        try:
            self.ask("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait(10)
            self.log.close()
