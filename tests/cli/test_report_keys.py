"""The page of a run with the keyboard alone: every part that does something is reached by Tab, shows that it is, and does it.

Chromium is driven through its debugging pipe, so that keys are real ones. Run as: test_report_keys.py LULL
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report_case  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))

# What can be focused, in the order of the document, each with a number.
MARK = """[...document.querySelectorAll('a[href], summary, [tabindex]')].map((e, i) => (e.dataset.number = i, e.tagName)).join(' ')"""
FOCUSED = """(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
    return JSON.stringify({number: e.dataset.number === undefined ? null : +e.dataset.number, tag: e.tagName,
        outline: s.outlineStyle === 'none' ? 0 : parseFloat(s.outlineWidth),
        seen: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth}); })()"""
KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39, " ": 32}


class Browser:
    """A Chromium with one page."""

    def __init__(self, program, directory, width):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def place():
            # 3 and 4 are where Chromium looks; the pipes may lie there the other way round.
            first, second = os.dup(to_read), os.dup(from_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--window-size={width},900",
             f"--user-data-dir={directory}/profile", "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=place)
        os.close(to_read)
        os.close(from_write)
        self.input, self.output, self.count, self.session = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb"), 0, None
        self.events, self.rest = [], b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.take().get("method"))

    def take(self):
        while b"\0" not in self.rest:
            more = os.read(self.output.fileno(), 65536)
            assert more, "chromium has ended"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.input.write(json.dumps(message).encode() + b"\0")
        self.input.flush()
        while True:
            answer = self.take()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer.get("method"))

    def ask(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key, modifiers=0):
        words = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **words, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def focused(self):
        return json.loads(self.ask(FOCUSED))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.input.close()
        self.output.close()


class Keys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = shutil.which("chromium")
        if program is None:
            raise unittest.SkipTest("no chromium")
        holder = tempfile.TemporaryDirectory(prefix="lull-", ignore_cleanup_errors=True)
        cls.addClassCleanup(holder.cleanup)
        for name in ("one", "two"):
            os.mkdir(os.path.join(holder.name, name))
            with open(os.path.join(holder.name, name, "report.json"), "w", encoding="utf-8") as file:
                json.dump(report_case.large(gpus=2), file)
        subprocess.run([LULL, "report", "--output", "both.html", "one", "two"], cwd=holder.name, check=True, capture_output=True)
        cls.url = f"file://{holder.name}/both.html"
        cls.browser = Browser(program, holder.name, 500)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.open("about:blank")
        self.browser.open(self.url)
        self.tags = self.browser.ask(MARK).split()

    def reach(self, number):
        """Tabs on to an element; it is known to be reached."""
        for _ in range(len(self.tags) + 1):
            self.browser.press("Tab")
            if self.browser.focused()["number"] == number:
                return
        self.fail(f"{number} is not reached")

    def test_all_is_reached_and_shown(self):
        self.assertLessEqual({"A", "DIV", "SUMMARY"}, set(self.tags))
        for number, tag in enumerate(self.tags):
            self.browser.press("Tab")
            found = self.browser.focused()
            self.assertEqual((found["number"], found["tag"]), (number, tag))
            self.assertGreaterEqual(found["outline"], 2.0, tag)
            self.assertTrue(found["seen"], (number, tag))
        # There is no way in that does not lead out, and back.
        self.browser.press("Tab")
        self.assertIsNone(self.browser.focused()["number"])
        for number in reversed(range(len(self.tags) - 3, len(self.tags))):
            self.browser.press("Tab", modifiers=8)
            self.assertEqual(self.browser.focused()["number"], number)

    def test_what_can_be_done_is_done(self):
        browser = self.browser
        # A link to the second run goes there.
        self.reach(self.tags.index("A", self.tags.index("A") + 1))
        browser.press("Enter")
        self.assertEqual(browser.ask("location.hash"), "#run-2")
        self.assertLess(abs(browser.ask("document.querySelector('#run-2').getBoundingClientRect().top")), 40)
        # A wide table is scrolled by arrows.
        wide = browser.ask("+[...document.querySelectorAll('.scroll')].find(e => e.scrollWidth > e.clientWidth + 100).dataset.number")
        browser.ask("scrollTo(0, 0); document.activeElement.blur(); getSelection().collapse(document.body, 0)")
        self.reach(wide)
        for _ in range(3):
            browser.press("ArrowRight")
        for _ in range(200):
            if browser.ask(f"document.querySelector('[data-number=\"{wide}\"]').scrollLeft") > 0:
                break
        else:
            self.fail("it does not scroll")
        # Every tooltip's words are in a list that is unfolded by Enter and folded by the space bar.
        summary = self.tags.index("SUMMARY")
        self.reach(summary)
        is_open = f"document.querySelector('[data-number=\"{summary}\"]').parentElement.open"
        browser.press("Enter")
        self.assertTrue(browser.ask(is_open))
        browser.press(" ")
        self.assertFalse(browser.ask(is_open))

    def test_no_words_are_for_the_mouse_alone(self):
        """The marks of charts; the bands of the timeline are in the table of sections."""
        lost = self.browser.ask("""JSON.stringify([...document.querySelectorAll('svg.chart title')].map(e => e.textContent).filter(
            text => ![...document.querySelectorAll('details li')].some(e => e.textContent === text)))""")
        self.assertEqual(json.loads(lost), [])
        self.assertGreater(self.browser.ask("document.querySelectorAll('details li').length"), 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
