// Package chunks reads a stream of unknown length into memory that grows with
// the bytes that came. A Buffer holds at most twice the bytes read, plus one
// small chunk, and the caller's Account hears of each allocation before it is
// made. Growing copies nothing; Join copies once.
package chunks

import (
	"errors"
	"io"
	"slices"
)

// Account counts the memory of a Buffer. Take returns an error if n more bytes
// must not be allocated. Return returns n bytes.
type Account interface {
	Take(n int) error
	Return(n int)
}

// ErrTooLong reports that a stream has more bytes than the limit.
var ErrTooLong = errors.New("more bytes than the limit")

// Sizes of chunks after the first: as many bytes as have come, within these.
const (
	least = 4 << 10
	most  = 64 << 10
)

// Buffer is a stream being read; Start begins. The caller owns the memory that it has taken
// from the Account, and gives it back in the end. Not safe for concurrent use.
type Buffer struct {
	account Account
	limit   int
	full    [][]byte
	last    []byte
	size    int // bytes in full
}

// Start makes prefix the first chunk, with room for at least room more bytes.
// limit bounds the bytes read after the prefix. Call it first, and once.
func (b *Buffer) Start(account Account, prefix []byte, room, limit int) error {
	b.account, b.limit = account, len(prefix)+limit
	b.last = slices.Grow(prefix, room)
	return account.Take(cap(b.last))
}

// Read reads r to its end. announced is the number of bytes that r should
// have, or -1.
func (b *Buffer) Read(r io.Reader, announced int) error {
	end := b.Len() + announced + 1 // the end is found by a read of one byte more
	for {
		if len(b.last) == cap(b.last) {
			if err := b.grow(end - b.Len()); err != nil {
				return err
			}
		}
		n, err := r.Read(b.last[len(b.last):cap(b.last)])
		b.last = b.last[:len(b.last)+n]
		switch {
		case b.Len() > b.limit:
			return ErrTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow adds a chunk. expected is the number of bytes to come, if positive.
func (b *Buffer) grow(expected int) error {
	size := min(max(b.Len(), least), most, b.limit+1-b.Len())
	if expected > 0 {
		size = min(size, expected)
	}
	if err := b.account.Take(size); err != nil {
		return err
	}
	b.full, b.size = append(b.full, b.last), b.size+len(b.last)
	b.last = slices.Grow([]byte(nil), size)
	if more := cap(b.last) - size; more > 0 { // the allocator rounds up
		return b.account.Take(more)
	}
	return nil
}

// Len is the number of bytes, with the prefix.
func (b *Buffer) Len() int { return b.size + len(b.last) }

// Join returns all bytes in one piece. The Buffer is empty afterwards, and the
// account counts the piece alone.
func (b *Buffer) Join() ([]byte, error) {
	if len(b.full) == 0 {
		return b.last, nil
	}
	if err := b.account.Take(b.Len()); err != nil {
		return nil, err
	}
	whole, chunks := make([]byte, 0, b.Len()), cap(b.last)
	for _, c := range b.full {
		whole = append(whole, c...)
		chunks += cap(c)
	}
	whole = append(whole, b.last...)
	b.account.Return(chunks)
	b.full, b.last, b.size = nil, nil, 0
	return whole, nil
}
