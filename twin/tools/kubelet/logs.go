package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const pollTime = 200 * time.Millisecond

type logOptions struct {
	follow, previous bool
	tail, limit      *int64
}

// options reads v1.PodLogOptions. The lines of a log have no times here, so what needs them is refused: an output with
// lines that are too old would be wrong without a sign of it.
func optionsOf(query url.Values) (logOptions, error) {
	var out logOptions
	for name, into := range map[string]*bool{"follow": &out.follow, "previous": &out.previous} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return out, fmt.Errorf("%s: must be true or false, got %q", name, text)
			}
			*into = value
		}
	}
	for name, into := range map[string]**int64{"tailLines": &out.tail, "limitBytes": &out.limit} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil || value < 0 {
				return out, fmt.Errorf("%s: must be a whole number of 0 or more, got %q", name, text)
			}
			*into = &value
		}
	}
	for _, name := range []string{"timestamps", "sinceSeconds", "sinceTime"} {
		if text := query.Get(name); text != "" && text != "false" {
			return out, fmt.Errorf("%s: the lines of a log have no times on the twin, got %q", name, text)
		}
	}
	return out, nil
}

func (n *node) logs(w http.ResponseWriter, r *http.Request) {
	asked, err := optionsOf(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found := n.asked(w, r, false)
	if found == nil {
		return
	}
	if asked.previous && found.Previous == nil {
		text := fmt.Sprintf("previous terminated container %q in pod %q not found", found.name, r.PathValue("pod"))
		http.Error(w, text, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	_ = write(r.Context(), found, asked, flushed{w, http.NewResponseController(w)})
}

type flushed struct {
	io.Writer
	control *http.ResponseController
}

func (f flushed) Write(data []byte) (int, error) {
	written, err := f.Writer.Write(data)
	if err == nil {
		err = f.control.Flush()
	}
	return written, err
}

var errLimit = errors.New("limitBytes reached")

// limited writes at most so many bytes.
type limited struct {
	to   io.Writer
	left int64
}

func (l *limited) Write(data []byte) (int, error) {
	if int64(len(data)) <= l.left {
		l.left -= int64(len(data))
		return l.to.Write(data)
	}
	written, err := l.to.Write(data[:l.left])
	l.left = 0
	if err == nil {
		err = errLimit
	}
	return written, err
}

// write copies a container's log, and with `follow` what comes until its process ends.
func write(ctx context.Context, from *container, asked logOptions, to io.Writer) error {
	file, err := os.Open(from.Log)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was written
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if asked.limit != nil {
		to = &limited{to, *asked.limit}
	}
	begin, end, err := rangeOf(file, from, asked.previous)
	if err != nil {
		return err
	}
	if asked.tail != nil {
		if begin, err = lastLines(file, begin, end, *asked.tail); err != nil {
			return err
		}
	}
	if _, err := io.Copy(to, io.NewSectionReader(file, begin, end-begin)); err != nil {
		return err
	}
	if !asked.follow || asked.previous {
		return nil
	}
	return follow(ctx, from, file, end, to)
}

// rangeOf returns the part of a log that one process wrote. The twin shortens long logs, so the part can be gone.
func rangeOf(file *os.File, from *container, previous bool) (int64, int64, error) {
	at, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	size := at.Size()
	if previous {
		begin, end := from.Previous[0], from.Previous[1]
		if end > size {
			return 0, 0, nil
		}
		return begin, end, nil
	}
	if from.Begin > size {
		return 0, size, nil
	}
	return from.Begin, size, nil
}

// lastLines returns where the last lines of a part of a file begin.
func lastLines(file *os.File, begin, end, lines int64) (int64, error) {
	const chunk = 64 * 1024
	if lines == 0 {
		return end, nil
	}
	seen := int64(0)
	for at := end; at > begin; {
		from := max(begin, at-chunk)
		part := make([]byte, at-from)
		if _, err := file.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for {
			found := bytes.LastIndexByte(part, '\n')
			if found < 0 {
				break
			}
			if position := from + int64(found) + 1; position < end { // the last line's own end begins none
				if seen++; seen == lines {
					return position, nil
				}
			}
			part = part[:found]
		}
		at = from
	}
	return begin, nil
}

func follow(ctx context.Context, from *container, file *os.File, at int64, to io.Writer) error {
	for {
		runs := from.runs() // asked before the read, which then has all that it wrote
		if now, err := file.Stat(); err == nil && now.Size() < at {
			at = 0 // the twin has shortened the log
		}
		copied, err := io.Copy(to, io.NewSectionReader(file, at, 1<<62))
		if err != nil {
			return err
		}
		at += copied
		if !runs {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollTime):
		}
	}
}
