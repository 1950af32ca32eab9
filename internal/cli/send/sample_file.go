package send

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// samples has a file for each provider, and for each scheme whose webhooks differ
// from the provider's others. A file is a template of headers, an empty line and a
// body, see values. A pseudo-header Event-Type in the first line is the default
// type. Members that the idempotency key covers have constant times, so that the
// same id makes the same webhook at any time.
//
//go:embed samples/*.http
var samples embed.FS

// file is a sample.
type file struct {
	name, text string
	eventType  string // the default; "" if the webhooks contain no type
}

// sampleFile returns the sample of a provider's scheme.
func sampleFile(provider, scheme string) (file, error) {
	name := provider + "." + scheme
	raw, err := samples.ReadFile("samples/" + name + ".http")
	if err != nil {
		name = provider
		raw, err = samples.ReadFile("samples/" + name + ".http")
	}
	f := file{name: name, text: string(raw)}
	if first, rest, _ := strings.Cut(f.text, "\n"); strings.HasPrefix(first, typeHeader) {
		f.eventType, f.text = strings.TrimPrefix(first, typeHeader), rest
	}
	return f, err
}

const typeHeader = "Event-Type: "

// hasTwoPartTypes reports whether the webhook contains the parts of its type in two
// places.
func (f file) hasTwoPartTypes() bool { return strings.Contains(f.text, ".TypeTail") }

// render returns the headers and the body.
func (f file) render(v values) (http.Header, []byte, error) {
	t, err := template.New(f.name).Parse(f.text)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, nil, err
	}
	out.WriteString("\n\n")
	in := bufio.NewReader(&out)
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return nil, nil, fmt.Errorf("sample %s: %w", f.name, err)
	}
	body, err := io.ReadAll(in)
	return http.Header(header), bytes.TrimRight(body, "\n"), err
}

// values are the values that a sample can contain.
type values struct {
	sample Sample
	now    time.Time
}

// check refuses texts that a JSON string, an XML element or a header cannot contain
// without an escape.
func (v values) check() error {
	texts := map[string]string{"--id": v.sample.ID, "--type": v.sample.EventType, "--payment": v.sample.PaymentID}
	for name, value := range v.sample.Options {
		texts["--option "+name] = value
	}
	isOdd := func(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`"\<>&`, c) }
	for _, flag := range slices.Sorted(maps.Keys(texts)) {
		if strings.ContainsFunc(texts[flag], isOdd) {
			return input.Usagef(`%s %q: want printable ASCII without ", \, <, > and &`, flag, texts[flag])
		}
	}
	return nil
}

// ID returns the id of the webhook.
func (v values) ID() string { return v.sample.ID }

// Hex returns n hexadecimal digits, at most 64, that depend only on the id.
func (v values) Hex(n int) string {
	sum := v.sum()
	return hex.EncodeToString(sum[:])[:n]
}

// Number returns a positive number, exact in JavaScript, that depends only on the id.
func (v values) Number() uint64 {
	const bits = 50
	sum := v.sum()
	return binary.BigEndian.Uint64(sum[:])>>(64-bits) + 1
}

func (v values) sum() [sha256.Size]byte { return sha256.Sum256([]byte(v.sample.ID)) }

// Type returns the event type.
func (v values) Type() string { return v.sample.EventType }

// TypeHead returns the event type before its last dot.
func (v values) TypeHead() string {
	return strings.TrimSuffix(v.sample.EventType, "."+v.TypeTail())
}

// TypeTail returns the event type after its last dot.
func (v values) TypeTail() string {
	return v.sample.EventType[strings.LastIndexByte(v.sample.EventType, '.')+1:]
}

// Payment returns the id of the payment.
func (v values) Payment() string {
	if v.sample.PaymentID == "" {
		return "pi_" + v.sample.ID
	}
	return v.sample.PaymentID
}

// Option returns an option of the provider, or other if it is not set.
func (v values) Option(name, other string) string {
	if value := v.sample.Options[name]; value != "" {
		return value
	}
	return other
}

// Unix returns the time of sending in seconds.
func (v values) Unix() string { return strconv.FormatInt(v.now.Unix(), 10) }

// UnixMilli returns the time of sending in milliseconds.
func (v values) UnixMilli() string { return strconv.FormatInt(v.now.UnixMilli(), 10) }

// RFC3339 returns the time of sending.
func (v values) RFC3339() string { return v.now.UTC().Format(time.RFC3339) }

// Base64 encodes a text.
func (v values) Base64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
