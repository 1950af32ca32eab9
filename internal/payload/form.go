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

// maxFormFields limits the fields of a form, like net/url.
const maxFormFields = 10_000

// formJSON returns a form as an object of strings. The charset is used only for
// text that is not UTF-8: signatures rarely cover the content type, and a replay
// with another charset must not have another id.
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
		if badName != nil || badValue != nil || strings.Contains(text, ";") { // net/url refuses semicolons, too
			return nil, errMalformedForm
		}
		fields = append(fields, field[string]{name, value})
	}
	const marks = len(`"":"",`)
	size := len(`{}`)
	for _, f := range fields {
		size += writtenSize([]byte(f.name)) + writtenSize([]byte(f.value)) + marks
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

// Limits of multipart forms. Parts are counted like in mime/multipart.
const (
	maxParts           = 1000
	maxPartHeaderBytes = 16 << 10
)

// part is a part of a multipart form: a text, or the metadata of a file.
type part struct {
	isFile bool
	text   string // the text, or the file's name
	media  string // of a file
	size   int64  // of a file
}

// multipartJSON returns a multipart form as an object of texts and files. It reads
// part by part, and does not keep the content of files. Parts without a name are
// omitted.
func multipartJSON(body []byte, boundary string) ([]byte, error) {
	isWhole := bytes.Contains(body, []byte("--"+boundary+"--")) // the reader accepts a body that is cut off after a boundary
	if boundary == "" {
		return nil, errNoBoundary
	}
	if !isWhole {
		return nil, errTruncated
	}
	var fields []field[part]
	size, copyBuffer := len(`{}`), make([]byte, 4<<10)
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		p, err := r.NextPart()
		if err == io.EOF { //nolint:errorlint // a wrapped EOF means that the last boundary is missing
			return appendObject(make([]byte, 0, size), fields, appendPart), nil
		}
		if err != nil {
			return nil, errMalformedParts
		}
		if n == maxParts || sizeOf(p.Header) > maxPartHeaderBytes {
			return nil, errManyParts
		}
		shown, err := readPart(p, copyBuffer)
		if err != nil {
			return nil, errMalformedParts
		}
		if name := p.FormName(); name != "" {
			const marks = len(`"":{"content_type":"","filename":"","size":1000000000},`)
			size += writtenSize([]byte(name)) + writtenSize([]byte(shown.text)) + writtenSize([]byte(shown.media)) + marks
			fields = append(fields, field[part]{name, shown})
		}
	}
}

// readPart reads a part. All parts of a form share copyBuffer.
func readPart(p *multipart.Part, copyBuffer []byte) (shown part, err error) {
	if p.FormName() == "" || p.FileName() != "" {
		shown = part{isFile: true, text: p.FileName(), media: p.Header.Get("Content-Type")}
		shown.size, err = io.Copy(io.Discard, p) // io.Discard pools its buffers
		return shown, err
	}
	var text strings.Builder
	_, err = io.CopyBuffer(&text, p, copyBuffer)
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
