// Package browsertest runs pages in a real browser, for tests only.
//
// The first call of New starts one headless Chromium, which all tests of a test binary share. Each
// Page has a browser context of its own: no cookies, storage or cache of another test. The browser
// resolves no names and uses no proxy, so that no page reaches another machine.
//
// A test fails if its page writes an error to the console, has an uncaught exception, violates its
// Content-Security-Policy, or sends a request to an origin that the test did not open. Allow names
// a problem that the test provokes.
//
// Each action has a timeout. Waits end with an event in the page, and never after a fixed time.
// A package whose tests call New needs
//
//	func TestMain(m *testing.M) { browsertest.Main(m) }
//
// Without Chromium, New skips the test. In CI as root, where make installs Chromium, New fails the
// test.
package browsertest
