package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/worker"
)

// program is a running worker for send-invoice.
type program struct {
	stop   func() // as SIGTERM does
	ended  <-chan struct{}
	ending func() string // "" after a clean end
}

// mailed waits for a mail of a worker.
func (o *workerFixture) mailed(p program) mail {
	o.t.Helper()
	select {
	case m := <-o.mails:
		return m
	case <-p.ended:
		o.t.Fatalf("the worker ended: %s", p.ending())
	case <-time.After(2 * time.Minute):
		o.t.Fatal("the worker has sent no mail")
	}
	return mail{}
}

// startProgram starts the program of docs/workers.md in a language. If the interpreter
// is missing, the test is skipped, except in CI.
func startProgram(t *testing.T, o *workerFixture, language, name, interpreter string, check ...string) program {
	t.Helper()
	if err := exec.Command(interpreter, check...).Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v; `make interpreters` installs it", interpreter, err)
		}
		t.Skipf("%s is missing or too old: %v", interpreter, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(workersPage(t, language)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(interpreter, name)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "EVENTHOOK_URL=" + o.tenantURL(), "EVENTHOOK_KEY=" + o.key,
		"MAILER_URL=" + o.mailer.URL, "LEASE_SECONDS=3"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var err error
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("what %s printed:\n%s", name, &out)
		}
	})
	return program{
		stop:  func() { _ = cmd.Process.Signal(syscall.SIGTERM) },
		ended: ended,
		ending: func() string {
			if err != nil {
				return fmt.Sprintf("%v\n%s", err, &out)
			}
			return ""
		},
	}
}

// workersPage returns the program of docs/workers.md in a language. It fails the test
// if the program has more than 40 lines.
func workersPage(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the page contains %d programs in %s, want one", len(blocks), language)
	}
	if lines := strings.Count(blocks[0][1], "\n"); lines > 40 {
		t.Errorf("the program in %s has %d lines, want at most 40", language, lines)
	}
	return blocks[0][1]
}

func startWorker(t *testing.T, w *worker.Worker) program {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var err error
	go func() {
		err = w.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return program{stop: stop, ended: ended, ending: func() string {
		if err != nil {
			return err.Error()
		}
		return ""
	}}
}
