package payload

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxFormFields is how many fields a form may have, as net/url bounds them.
const maxFormFields = 10_000

// formJSON is a form as an object of texts. Its charset counts only for what is
// no UTF-8: the content type is seldom signed, and who sends a form again under
// another must not make another id of the one in it.
func formJSON(body []byte, charset string) ([]byte, error) {
	if bytes.Count(body, []byte("&")) >= maxFormFields {
		return nil, errManyFields
	}
	var fields []field[string]
	for text := range strings.SplitSeq(string(body), "&") {
		if text == "" {
			continue
		}
		name, value, _ := strings.Cut(text, "=")
		name, badName := formText(name, charset)
		value, badValue := formText(value, charset)
		if badName != nil || badValue != nil || strings.Contains(text, ";") { // which net/url refuses, too
			return nil, errNoForm
		}
		fields = append(fields, field[string]{name, value})
	}
	const marks = len(`"":"",`)
	size := len(`{}`)
	for _, f := range fields {
		size += written([]byte(f.name)) + written([]byte(f.value)) + marks
	}
	return appendObject(make([]byte, 0, size), fields, AppendJSONString), nil
}

func formText(s, charset string) (string, error) {
	s, err := url.QueryUnescape(s)
	if err != nil || utf8.ValidString(s) {
		return s, err
	}
	if text, err := decode(charset, []byte(s)); err == nil {
		return string(text), nil
	}
	return s, nil
}

// Bounds of multipart forms. Parts are counted as mime/multipart counts them.
const (
	maxParts           = 1000
	maxPartHeaderBytes = 16 << 10
)

// part is what the view shows of a part of a form: a text, or a file.
type part struct {
	isFile bool
	text   string // or the file's name, and
	media  string
	size   int64
}

// multipartJSON is a multipart form as an object of texts and files. It reads
// part by part and keeps no more than the view shows: of files no content.
// Parts without a name are left out.
func multipartJSON(body []byte, boundary string) ([]byte, error) {
	isWhole := bytes.Contains(body, []byte("--"+boundary+"--")) // the reader does not mind an end after a boundary that is not the last
	if boundary == "" {
		return nil, errNoBoundary
	}
	if !isWhole {
		return nil, errCutShort
	}
	var fields []field[part]
	size, copying := len(`{}`), make([]byte, 4<<10)
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		p, err := r.NextPart()
		if err == io.EOF { //nolint:errorlint // one that is wrapped says that the last boundary is missing
			return appendObject(make([]byte, 0, size), fields, appendPart), nil
		}
		if err != nil {
			return nil, errNoParts
		}
		if n == maxParts || sizeOf(p.Header) > maxPartHeaderBytes {
			return nil, errManyParts
		}
		shown, err := readPart(p, copying)
		if err != nil {
			return nil, errNoParts
		}
		if name := p.FormName(); name != "" {
			const marks = len(`"":{"content_type":"","filename":"","size":1000000000},`)
			size += written([]byte(name)) + written([]byte(shown.text)) + written([]byte(shown.media)) + marks
			fields = append(fields, field[part]{name, shown})
		}
	}
}

// readPart copies by way of a buffer that all parts of a form share.
func readPart(p *multipart.Part, copying []byte) (shown part, err error) {
	if p.FormName() == "" || p.FileName() != "" {
		shown = part{isFile: true, text: p.FileName(), media: p.Header.Get("Content-Type")}
		shown.size, err = io.Copy(io.Discard, p) // which pools its buffers
		return shown, err
	}
	var text strings.Builder
	_, err = io.CopyBuffer(&text, p, copying)
	return part{text: text.String()}, err
}

func sizeOf(h textproto.MIMEHeader) (bytes int) {
	for name, values := range h {
		for _, v := range values {
			bytes += len(name) + len(v)
		}
	}
	return bytes
}

func appendPart(b []byte, p part) []byte {
	if !p.isFile {
		return AppendJSONString(b, p.text)
	}
	b = AppendJSONString(append(b, `{"content_type":`...), p.media)
	b = AppendJSONString(append(b, `,"filename":`...), p.text)
	b = strconv.AppendInt(append(b, `,"size":`...), p.size, 10)
	return append(b, '}')
}
