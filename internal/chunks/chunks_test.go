package chunks_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eventhook/eventhook/internal/chunks"
)

// account is a budget of limit bytes.
type account struct{ taken, peak, limit int }

var errFull = errors.New("the budget is used up")

func (a *account) Take(n int) error {
	if a.taken+n > a.limit {
		return errFull
	}
	a.taken += n
	a.peak = max(a.peak, a.taken)
	return nil
}

func (a *account) Return(n int) { a.taken -= n }

// stalled returns n bytes and then an error.
func stalled(n int) io.Reader {
	return io.MultiReader(strings.NewReader(strings.Repeat("x", n)), iotest.ErrReader(errFull))
}

// A sender that stalls at any byte, such as just after the end of a chunk, uses little more
// memory than it has sent.
func TestMemoryGrowsWithTheBytesReceived(t *testing.T) {
	const small, chunk = 10 << 10, 64 << 10
	for sent := 1; sent < 3<<20; sent += sent/7 + 1 {
		for _, announced := range []int{-1, 8 << 20} {
			a := &account{limit: 1 << 30}
			var b chunks.Buffer
			if err := b.Start(a, nil, 1<<10, 8<<20); err != nil {
				t.Fatal(err)
			}
			if err := b.Read(stalled(sent), announced); !errors.Is(err, errFull) {
				t.Fatalf("%d bytes: got %v, want the reader's error", sent, err)
			}
			if limit := min(2*sent+small, sent+chunk+small); a.taken > limit {
				t.Errorf("after %d of %d bytes the buffer takes %d, want at most %d", sent, announced, a.taken, limit)
			}
		}
	}
}

func TestTheWholeStreamIsRead(t *testing.T) {
	for _, size := range []int{0, 1, 1023, 1024, 4096, 70_000, 1 << 20} {
		want := append([]byte("head"), bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]...)
		for _, announced := range []int{-1, size} {
			for name, r := range map[string]io.Reader{
				"whole": bytes.NewReader(want[4:]), "with its end": iotest.DataErrReader(bytes.NewReader(want[4:])), "in halves": iotest.HalfReader(bytes.NewReader(want[4:])),
			} {
				a := &account{limit: 1 << 30}
				var b chunks.Buffer
				_ = b.Start(a, []byte("head"), 1024, size)
				if err := b.Read(r, announced); err != nil {
					t.Fatalf("%d bytes, %s: %v", size, name, err)
				}
				got, err := b.Join()
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, %s: got %d different bytes, %v", size, name, len(got), err)
				}
				if a.taken != cap(got) {
					t.Errorf("%d bytes, %s: the account counts %d, want %d", size, name, a.taken, cap(got))
				}
			}
		}
	}
}

func TestOneByteTooManyIsRefused(t *testing.T) {
	for _, size := range []int{10, 5000, 100_000} {
		a := &account{limit: 1 << 30}
		var b chunks.Buffer
		_ = b.Start(a, []byte("head"), 8, size-1)
		if err := b.Read(strings.NewReader(strings.Repeat("x", size)), -1); !errors.Is(err, chunks.ErrTooLong) {
			t.Errorf("%d bytes, one too many: got %v", size, err)
		}
	}
}

// Memory is taken from the account before it is allocated, and the copy of Join is taken
// while the chunks still exist.
func TestMemoryIsTakenBeforeItIsAllocated(t *testing.T) {
	const size = 1 << 20
	a := &account{limit: size / 2}
	var b chunks.Buffer
	_ = b.Start(a, nil, 1024, size)
	if err := b.Read(strings.NewReader(strings.Repeat("x", size)), size); !errors.Is(err, errFull) {
		t.Errorf("reading: got %v, want the account's error", err)
	}
	a = &account{limit: size + size/2}
	b = chunks.Buffer{}
	_ = b.Start(a, nil, 1024, size)
	if err := b.Read(strings.NewReader(strings.Repeat("x", size)), size); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Join(); !errors.Is(err, errFull) {
		t.Errorf("joining: got %v, want the account's error", err)
	}
	a = &account{limit: 3 * size}
	b = chunks.Buffer{}
	_ = b.Start(a, nil, 1024, size)
	_ = b.Read(strings.NewReader(strings.Repeat("x", size)), size)
	if _, err := b.Join(); err != nil || a.peak < 2*size {
		t.Errorf("joining: %v, at most %d bytes were taken, want chunks and copy, %d", err, a.peak, 2*size)
	}
}
