// SPDX-License-Identifier: Apache-2.0
#include "src/plan/render.h"

#include <algorithm>
#include <map>

namespace tutti::core {

namespace {

// The drawing's measures in pixels, and its palette (legible in grey as well): chosen by eye.
constexpr int kLeastWidth = 40, kLetter = 7, kPadding = 12, kBoxHeight = 22, kGap = 26, kRow = 46, kLeft = 92,
              kTop = 80;
constexpr int kLeastPage = 560;  // the legend's width
constexpr const char* kColours[] = {"#cfe3f7", "#d9efd0", "#eeeeee", "#fbe3c2", "#f3d3e0"};
constexpr const char* kColourNames[] = {"send", "receive", "copy", "reduce", "wait"};

const char* colour_of(Drawing::Colour colour) { return kColours[static_cast<std::size_t>(colour)]; }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string number(int value) { return std::to_string(value); }

/// Row of every (rank, lane) that occurs.
std::map<std::pair<int, int>, int> rows_of(const Drawing& drawing) {
  std::map<std::pair<int, int>, int> rows;
  for (const Drawing::Box& box : drawing.boxes) rows[{box.rank, box.lane}] = 0;
  int next = 0;
  for (auto& [key, row] : rows) row = next++;
  return rows;
}

}  // namespace

std::string to_dot(const Drawing& drawing) {
  std::string out = "digraph plan {\n  label=\"" + escaped(drawing.title) + "\"; labelloc=t; rankdir=LR;\n" +
                    "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10, height=0.3];\n";
  for (const auto& [key, row] : rows_of(drawing)) {
    const auto& [rank, lane] = key;
    out += "  subgraph cluster_" + number(row) + " {\n    label=\"rank " + number(rank) +
           (lane > 0 ? " lane " + number(lane) : "") + "\";\n";
    std::string chain;
    for (std::size_t i = 0; i < drawing.boxes.size(); ++i) {
      const Drawing::Box& box = drawing.boxes[i];
      if (box.rank != rank || box.lane != lane) continue;
      out += "    b" + std::to_string(i) + " [label=\"" + escaped(box.label) + "\", tooltip=\"" + escaped(box.tooltip) +
             "\", fillcolor=\"" + colour_of(box.colour) + "\"];\n";
      chain += (chain.empty() ? "    b" : " -> b") + std::to_string(i);
    }
    out += chain + ";\n  }\n";
  }
  for (const Drawing::Arrow& arrow : drawing.arrows)
    out += "  b" + std::to_string(arrow.from) + " -> b" + std::to_string(arrow.to) +
           (arrow.is_message ? " [color=\"#1f6fb2\"" : " [style=dashed") + ", constraint=true];\n";
  return out + "}\n";
}

namespace {

/// Letters, not bytes: arrows take three.
int letters(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

class SvgPage {
 public:
  explicit SvgPage(const Drawing& drawing) : drawing_(drawing), rows_(rows_of(drawing)) {
    for (const Drawing::Box& box : drawing.boxes) {
      const auto column = static_cast<std::size_t>(box.time);
      if (column >= widths_.size()) widths_.resize(column + 1, kLeastWidth);
      widths_[column] = std::max(widths_[column], letters(box.label) * kLetter + kPadding);
    }
    int x = kLeft;
    for (const int width : widths_) {
      lefts_.push_back(x);
      x += width + kGap;
    }
    width_ = std::max(x - kGap + 16, kLeastPage);
    height_ = kTop + static_cast<int>(rows_.size()) * kRow;
  }

  std::string write() const {
    std::string out = head();
    for (const auto& [key, row] : rows_) {
      const int y = kTop + row * kRow + kBoxHeight / 2;
      out += "<text x=\"16\" y=\"" + number(y + 4) + "\">rank " + number(key.first) +
             (key.second > 0 ? " lane " + number(key.second) : "") + "</text><path d=\"M" + number(kLeft - 8) + " " +
             number(y) + "H" + number(width_ - 16) + "\" stroke=\"#ddd\"/>\n";
    }
    for (const Drawing::Arrow& arrow : drawing_.arrows) {
      const Drawing::Box &from = drawing_.boxes[arrow.from], &to = drawing_.boxes[arrow.to];
      out += std::string("<path class=\"") + (arrow.is_message ? "m" : "w") + "\" d=\"M" +
             number(left(from) + width(from)) + " " + number(top(from) + kBoxHeight / 2) + "L" + number(left(to)) +
             " " + number(top(to) + kBoxHeight / 2) + "\"/>\n";
    }
    out += "<g text-anchor=\"middle\">\n";
    for (const Drawing::Box& box : drawing_.boxes) out += box_text(box);
    return out + "</g>\n</svg>\n";
  }

 private:
  int left(const Drawing::Box& box) const { return lefts_[static_cast<std::size_t>(box.time)]; }
  int width(const Drawing::Box& box) const { return widths_[static_cast<std::size_t>(box.time)]; }
  int top(const Drawing::Box& box) const { return kTop + rows_.at({box.rank, box.lane}) * kRow; }

  std::string head() const {
    std::string out =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width_) + "\" height=\"" + number(height_) +
        "\" viewBox=\"0 0 " + number(width_) + " " + number(height_) +
        "\" font-family=\"sans-serif\" font-size=\"11\">\n<style>" + box_styles() +
        ".m,.w{stroke:#1f6fb2;stroke-opacity:.6;marker-end:url(#head)}"
        ".w{stroke-dasharray:4 3}</style>\n"
        "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#1f6fb2\"/></marker></defs>\n"
        "<path d=\"M0 0H" +
        number(width_) + "V" + number(height_) +
        "H0z\" fill=\"#fff\"/>\n"
        "<text x=\"16\" y=\"24\" font-size=\"15\">" +
        escaped(drawing_.title) +
        "</text>\n"
        "<text x=\"16\" y=\"42\" fill=\"#666\">i input, o output, s scratch, r rank; numbers are chunks; "
        "time runs from left to right</text>\n";
    constexpr int kEntry = 84;
    for (std::size_t k = 0; k < std::size(kColours); ++k) {
      const int x = 16 + static_cast<int>(k) * kEntry;
      out += "<path " + class_of(static_cast<Drawing::Colour>(k)) + " d=\"M" + number(x) +
             " 52h12v12h-12z\"/><text x=\"" + number(x + 18) + "\" y=\"62\" fill=\"#666\">" + kColourNames[k] +
             "</text>\n";
    }
    return out;
  }

  static std::string box_styles() {
    std::string styles;
    for (std::size_t k = 0; k < std::size(kColours); ++k)
      styles += ".c" + std::to_string(k) + "{stroke:#555;fill:" + kColours[k] + "}";
    return styles;
  }

  static std::string class_of(Drawing::Colour colour) {
    return std::string("class=\"c") + number(static_cast<int>(colour)) + "\"";
  }

  std::string box_text(const Drawing::Box& box) const {
    const int wide = width(box);
    return "<g><title>" + escaped("step " + number(box.step) + ": " + box.tooltip) + "</title><path " +
           class_of(box.colour) + " d=\"M" + number(left(box)) + " " + number(top(box)) + "h" + number(wide) + "v" +
           number(kBoxHeight) + "h-" + number(wide) + "z\"/><text x=\"" + number(left(box) + wide / 2) + "\" y=\"" +
           number(top(box) + 15) + "\">" + escaped(box.label) + "</text></g>\n";
  }

  const Drawing& drawing_;
  const std::map<std::pair<int, int>, int> rows_;
  std::vector<int> widths_, lefts_;  // of the columns
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string to_svg(const Drawing& drawing) { return SvgPage(drawing).write(); }

}  // namespace tutti::core
