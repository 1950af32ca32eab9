package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// startLimit allows for a busy machine.
const startLimit = 2 * time.Minute

// programs are the names of Chromium, and of browsers that are built from it.
var programs = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// shared is the browser of this test binary.
var shared browser

type browser struct {
	mu  sync.Mutex
	ctx context.Context //nolint:containedctx // of the browser: nil before the start; done if it has ended
}

// Main runs a package's tests, ends the browser that they used, and exits. Before that it calls the
// functions after.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	Stop()
	os.Exit(code)
}

// Stop ends the browser and removes its profile. It is for a TestMain that cannot call Main.
func Stop() {
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest:", err)
	}
}

// get starts the browser unless it runs. A browser that crashed is replaced.
func (b *browser) get(program string) (context.Context, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil && b.ctx.Err() == nil {
		return b.ctx, nil
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(program),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE ::1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.Env("TZ=UTC", "LANG=C.UTF-8"),
	))
	expired := time.AfterFunc(startLimit, cancel)
	err := chromedp.Do(ctx)
	if !expired.Stop() || err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", program, errors.Join(err, context.Cause(ctx)))
	}
	b.ctx = ctx
	return ctx, nil
}

func (b *browser) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || b.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, actionLimit)
	defer cancel()
	b.ctx = nil
	return chromedp.Cancel(ctx)
}

// chromium returns the path of the browser. Without a browser it skips the test, and fails it where
// make could have installed the browser.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const message = "Chromium is missing; `make test-programs` installs it (Debian: sudo apt-get install chromium)"
	if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// Root returns the folder of the module, in which go.mod is.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			err = os.ErrNotExist
		}
		dir = parent
	}
	t.Fatalf("find go.mod: %v", err)
	return ""
}
