// Package commands reads the shell commands in the pages of the documentation, and says which test runs each of them.
package commands

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Block is a fenced block with shell commands in a page.
type Block struct {
	// Page is the path of the file, relative to the root of the repository.
	Page string
	// Line is the number of the line with the opening fence.
	Line int
	// Script contains the commands, without the prompts and the output that the page shows.
	Script string
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Matches reports whether a key identifies the block. A key consists of the page and the beginning of the script, for
// example "docs/queue.md: kubectl".
func (b Block) Matches(key string) bool { return strings.HasPrefix(b.Page+": "+b.Script, key) }

// Read returns the blocks of all Markdown pages below root, sorted by file and line. It skips folders whose names begin
// with a dot.
func Read(root string) ([]Block, error) {
	var blocks []Block
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		page, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found, err := parse(filepath.ToSlash(page), string(text))
		blocks = append(blocks, found...)
		return err
	})
	return blocks, err
}

// parse returns the blocks of a page with the language sh or console.
func parse(page, text string) ([]Block, error) {
	var blocks []Block
	var open *Block
	language, indent := "", ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		rest := strings.TrimLeft(line, " ")
		fence, isFence := strings.CutPrefix(rest, "```")
		switch {
		case isFence && open == nil:
			language, indent = fence, line[:len(line)-len(rest)]
			open = &Block{Page: page, Line: number}
		case isFence:
			if language == "sh" || language == "console" {
				blocks = append(blocks, *open)
			}
			open = nil
		case open != nil:
			open.add(language, strings.TrimPrefix(line, indent))
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s does not end the block that begins in line %d", page, open.Line)
	}
	return blocks, nil
}

// add appends a line to the script. In a block with the language console, only lines with a prompt are commands.
func (b *Block) add(language, line string) {
	if language == "console" {
		command, prompted := strings.CutPrefix(line, "$ ")
		if !prompted {
			return
		}
		line = command
	}
	b.Script += line + "\n"
}
