package script

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// job is one run as it is sent to a process. If check is set, the program is only compiled.
type job struct {
	Program
	check bool
	limit time.Duration // in whole milliseconds
	input []byte
}

// frameLimit bounds a part of a frame. It is above any valid size, and protects the gateway from a
// compromised child.
const frameLimit = 64 << 20

var errFrame = errors.New("script: a frame is malformed")

// writeParts writes byte strings, each preceded by its length.
func writeParts(w *bufio.Writer, parts ...[]byte) error {
	var length [4]byte
	for _, p := range parts {
		binary.BigEndian.PutUint32(length[:], uint32(len(p)))
		if _, err := w.Write(length[:]); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return w.Flush()
}

func readPart(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameLimit {
		return nil, errFrame
	}
	part := make([]byte, n)
	_, err := io.ReadFull(r, part)
	return part, err
}

func writeJob(w *bufio.Writer, j job) error {
	head := []byte{byte(j.Kind), 0, 0, 0, 0, 0}
	if j.check {
		head[1] = 1
	}
	binary.BigEndian.PutUint32(head[2:], uint32(j.limit.Milliseconds()))
	return writeParts(w, head, []byte(j.Source), j.input)
}

func readJob(r io.Reader) (j job, err error) {
	var parts [3][]byte
	for i := range parts {
		if parts[i], err = readPart(r); err != nil {
			return job{}, err
		}
	}
	head := parts[0]
	if len(head) != 6 {
		return job{}, errFrame
	}
	return job{
		Program: Program{Kind: Kind(head[0]), Source: string(parts[1])},
		check:   head[1] == 1,
		limit:   time.Duration(binary.BigEndian.Uint32(head[2:])) * time.Millisecond,
		input:   parts[2],
	}, nil
}

// writeReply sends the result of a job: an output or a fault.
func writeReply(w *bufio.Writer, output []byte, fault *Error) error {
	head := make([]byte, 9)
	if fault != nil {
		head[0], output = byte(fault.Reason), []byte(fault.Message)
		binary.BigEndian.PutUint32(head[1:], uint32(fault.Line))
		binary.BigEndian.PutUint32(head[5:], uint32(fault.Column))
	}
	return writeParts(w, head, output)
}

// readReply returns an output or a fault, or an error if the reply is missing or malformed.
func readReply(r io.Reader) (output []byte, fault *Error, err error) {
	head, err := readPart(r)
	if err != nil {
		return nil, nil, err
	}
	if len(head) != 9 {
		return nil, nil, errFrame
	}
	body, err := readPart(r)
	if err != nil || head[0] == 0 {
		return body, nil, err
	}
	return nil, &Error{
		Reason:  Reason(head[0]),
		Message: string(body),
		Line:    int(binary.BigEndian.Uint32(head[1:])),
		Column:  int(binary.BigEndian.Uint32(head[5:])),
	}, nil
}
