// SPDX-License-Identifier: Apache-2.0
#include "src/plan/render.h"

#include <algorithm>
#include <map>

namespace tutti::core {

namespace {

// The drawing's measures in pixels, and its palette (legible in grey as well): chosen by eye.
constexpr int kLeastWidth = 60, kLetter = 7, kBoxHeight = 24, kGap = 28, kRow = 52, kLeft = 92, kTop = 64;
constexpr const char* kColours[] = {"#cfe3f7", "#d9efd0", "#eeeeee", "#fbe3c2", "#f3d3e0"};

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

std::string to_svg(const Drawing& drawing) {
  const auto rows = rows_of(drawing);
  int columns = 1, box_width = kLeastWidth;
  for (const Drawing::Box& box : drawing.boxes) {
    columns = std::max(columns, box.time + 1);
    box_width = std::max(box_width, static_cast<int>(box.label.size() + 2) * kLetter);
  }
  const int column = box_width + kGap;
  const int width = kLeft + columns * column + 16, height = kTop + static_cast<int>(rows.size()) * kRow + 16;
  const auto left = [column](const Drawing::Box& box) { return kLeft + box.time * column; };
  const auto top = [&rows](const Drawing::Box& box) { return kTop + rows.at({box.rank, box.lane}) * kRow; };

  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
                    number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
                    "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
                    "markerHeight=\"7\" orient=\"auto\">"
                    "<path d=\"M0 0 L8 4 L0 8 z\" fill=\"#1f6fb2\"/></marker></defs>\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"16\" y=\"26\" font-size=\"15\">" +
                    escaped(drawing.title) + "</text>\n" +
                    "<text x=\"16\" y=\"44\" fill=\"#666\">i input, o output, s scratch, r rank; time runs from left "
                    "to right</text>\n";
  for (const auto& [key, row] : rows) {
    const int y = kTop + row * kRow + kBoxHeight / 2;
    out += "<text x=\"16\" y=\"" + number(y + 4) + "\">rank " + number(key.first) +
           (key.second > 0 ? " lane " + number(key.second) : "") + "</text>" + "<line x1=\"" + number(kLeft - 8) +
           "\" y1=\"" + number(y) + "\" x2=\"" + number(width - 16) + "\" y2=\"" + number(y) + "\" stroke=\"#ddd\"/>\n";
  }
  for (const Drawing::Arrow& arrow : drawing.arrows) {
    const Drawing::Box &from = drawing.boxes[arrow.from], &to = drawing.boxes[arrow.to];
    out += "<line x1=\"" + number(left(from) + box_width) + "\" y1=\"" + number(top(from) + kBoxHeight / 2) +
           "\" x2=\"" + number(left(to)) + "\" y2=\"" + number(top(to) + kBoxHeight / 2) +
           "\" stroke=\"#1f6fb2\" stroke-opacity=\"0.6\"" + (arrow.is_message ? "" : " stroke-dasharray=\"4 3\"") +
           " marker-end=\"url(#head)\"/>\n";
  }
  for (const Drawing::Box& box : drawing.boxes) {
    out += "<g><title>" + escaped("step " + number(box.step) + ": " + box.tooltip) + "</title><rect x=\"" +
           number(left(box)) + "\" y=\"" + number(top(box)) + "\" width=\"" + number(box_width) + "\" height=\"" +
           number(kBoxHeight) + "\" rx=\"4\" fill=\"" + colour_of(box.colour) + "\" stroke=\"#555\"/><text x=\"" +
           number(left(box) + box_width / 2) + "\" y=\"" + number(top(box) + 16) + "\" text-anchor=\"middle\">" +
           escaped(box.label) + "</text></g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace tutti::core
