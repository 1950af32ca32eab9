package main

import (
	"bytes"
	"log"
	"log/slog"
	"testing"
)

// The log has the messages of net/http only at debug level.
func TestStandardLogIsAtDebugLevel(t *testing.T) {
	out, flags := log.Writer(), log.Flags()
	defer func() { log.SetOutput(out); log.SetFlags(flags) }()
	for level, isWanted := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var text bytes.Buffer
		divertStandardLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})))
		log.Print("Unsolicited response")
		if got := bytes.Contains(text.Bytes(), []byte("Unsolicited response")); got != isWanted {
			t.Errorf("at %s: logged %t, want %t", level, got, isWanted)
		}
	}
}
