package batch_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/batch"
)

// The bounds for items of one row are tested in package ingest.

// commitItems queues the items one after the other while the first commit is blocked, lets
// all commits pass, and returns the items of each commit and the result of each Do. An
// item's value is its number of rows.
func commitItems(t *testing.T, bounds batch.Bounds, items ...int) (commits [][]int, errs []error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := batch.New(bounds, func(items []int) error {
			<-gate
			commits = append(commits, slices.Clone(items))
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		errs = make([]error, len(items))
		for i, n := range items {
			go func() { errs[i] = c.Do(n, n, 0) }()
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		if err := c.Do(1, 1, 0); !errors.Is(err, batch.ErrStopping) {
			t.Errorf("after the stop: got %v, want ErrStopping", err)
		}
		if n := c.Waiting(); n != 0 {
			t.Errorf("Waiting: got %d, want 0", n)
		}
	})
	return commits, errs
}

func TestBatchesAreBoundedByRows(t *testing.T) {
	bounds := batch.Bounds{Writers: 1, BatchRows: 10, BatchBytes: 1, OverlapRows: 1000, QueueRows: 1000, QueueBytes: 1}
	commits, errs := commitItems(t, bounds, 1, 4, 6, 1, 30, 2, 8, 1)
	if diff := cmp.Diff([][]int{{1}, {4, 6}, {1}, {30}, {2, 8}, {1}}, commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestTheQueueIsBoundedByRows(t *testing.T) {
	bounds := batch.Bounds{Writers: 1, BatchRows: 5, BatchBytes: 1, OverlapRows: 1000, QueueRows: 10, QueueBytes: 1}
	_, errs := commitItems(t, bounds, 1, 5, 6, 5, 1)
	for i, want := range []error{nil, nil, batch.ErrFull, nil, batch.ErrFull} {
		if !errors.Is(errs[i], want) {
			t.Errorf("item %d: got %v, want %v", i, errs[i], want)
		}
	}
	if _, errs = commitItems(t, bounds, 1, 50, 1); errs[1] != nil || !errors.Is(errs[2], batch.ErrFull) {
		t.Errorf("an item larger than the queue: got %v, want it queued alone", errs)
	}
}

// Add returns at once. Items that arrive while a commit runs share the next commit, and all
// are committed before Run returns.
func TestAddDoesNotWait(t *testing.T) {
	bounds := batch.Bounds{Writers: 1, BatchRows: 3, BatchBytes: 1, OverlapRows: 3, QueueRows: math.MaxInt, QueueBytes: math.MaxInt}
	synctest.Test(t, func(t *testing.T) {
		var commits [][]int
		gate := make(chan struct{})
		c := batch.New(bounds, func(items []int) error {
			<-gate
			commits = append(commits, slices.Clone(items))
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		for i := range 6 {
			if err := c.Add(i, 1, 0); err != nil {
				t.Errorf("item %d: got %v, want nil", i, err)
			}
			synctest.Wait()
		}
		stop()
		close(gate)
		if err := <-ended; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		if diff := cmp.Diff([][]int{{0}, {1, 2, 3}, {4, 5}}, commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
		if err := c.Add(6, 1, 0); !errors.Is(err, batch.ErrStopping) {
			t.Errorf("after the stop: got %v, want ErrStopping", err)
		}
	})
}
