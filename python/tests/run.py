"""run.py MODULE...: runs the test cases of these files and prints a line each, as tests/run_tests.sh counts
them: `ok NAME`, `not ok NAME` with the traceback above it, `SKIP NAME: WHY`."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Lines(unittest.TestResult):
    def name(self, test):
        return test.id().split(".", 1)[-1]

    def addSuccess(self, test):
        super().addSuccess(test)
        print("ok %s" % self.name(test), flush=True)

    def bad(self, test, err):
        print("  " + self._exc_info_to_string(err, test).replace("\n", "\n  "))
        print("not ok %s" % self.name(test), flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self.bad(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            print("  at %s" % subtest._subDescription())
            self.bad(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print("SKIP %s: %s" % (self.name(test), reason), flush=True)


if __name__ == "__main__":
    result = Lines()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)
