package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/eventhook/eventhook/bench/soak"
)

// soakFlags are the flags of a soak.
type soakFlags struct {
	length        time.Duration
	rate, settled int
	report        string
}

// soakPatience is how long all events may take to be delivered after the last one was sent.
const soakPatience = 10 * time.Minute

// runSoak runs a soak and prints its summary. A lost event is an error.
func runSoak(ctx context.Context, binary string, f soakFlags) error {
	s, err := soak.Run(ctx, soak.Options{
		Gateway: []string{binary}, For: f.length, Rate: f.rate, Settled: f.settled, Patience: soakPatience, Report: f.report, Log: os.Stdout,
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\nthe report is in %s\n", s.Markdown(), filepath.Join(f.report, "soak.svg"))
	if len(s.Problems) > 0 {
		return fmt.Errorf("%d events were lost; %d problems", s.Lost, len(s.Problems))
	}
	return nil
}
