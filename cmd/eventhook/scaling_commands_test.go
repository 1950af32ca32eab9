package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeNats stands for the program nats. It prints the file get, keeps what it publishes, and fails at the
// command that fails names.
const fakeNats = `#!/bin/sh
case "$FAILS" in "$1" | "$2") exit 1 ;; esac
case "$1 $2" in
"stream get") cat get ;;
"pub "*) cat >published ;;
"stream rmm") echo "$4" >deleted ;;
*) exit 2 ;;
esac
`

// docs/scaling.md, "Dead messages": a message is deleted only after all of it was sent again.
func TestADeadMessageIsDeletedOnlyAfterItWasSentAgain(t *testing.T) {
	raw, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := ""
	for _, b := range runbookBlocks(string(raw)) {
		if strings.Contains(b.commands, "nats pub") {
			commands += b.commands
		}
	}
	message := []byte("\x00frame\r\n{{ 1 }}\n")
	whole := `{"subject":"EVENTHOOK_INGEST_DEAD","data":"` + base64.StdEncoding.EncodeToString(message) + `"}`
	for _, c := range []struct {
		claim, get, fails string
		succeeds          bool
	}{
		{"all succeeds", whole, "", true},
		{"the message is not there", "", "get", false},
		{"the answer is empty", "", "", false},
		{"the answer has no data", `{"error":"no message"}`, "", false},
		{"the data is empty", `{"data":""}`, "", false},
		{"the data is cut off", `{"data":"AGZyYW1lD*"}`, "", false},
		{"the log does not acknowledge", whole, "pub", false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"nats": fakeNats, "get": c.get} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", commands)
		shell.Dir, shell.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "FAILS=" + c.fails}
		out, err := shell.CombinedOutput()
		if (err == nil) != c.succeeds {
			t.Errorf("%s: the commands ended with %v; they printed %s", c.claim, err, out)
		}
		sent, err := os.ReadFile(filepath.Join(dir, "published"))
		if (err == nil) != c.succeeds || c.succeeds && !bytes.Equal(sent, message) {
			t.Errorf("%s: sent %q, %v; want it sent: %t", c.claim, sent, err, c.succeeds)
		}
		if _, err := os.Stat(filepath.Join(dir, "deleted")); errors.Is(err, os.ErrNotExist) == c.succeeds {
			t.Errorf("%s: want the message deleted: %t, got %v", c.claim, c.succeeds, err)
		}
	}
}
