//! QR codes as SVG.

use qrcode::{Color, EcLevel, QrCode, types::QrError};

/// The white margin around a code, in modules.
const MARGIN: usize = 4;

/// Draws a text as a QR code, dark on white: one path, with a run of dark modules for each of its lines.
pub(super) fn svg(text: &str) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M)?;
    let (width, colors) = (code.width(), code.to_colors());
    let size = width + 2 * MARGIN;
    let mut path = String::new();
    for (line, row) in colors.chunks(width).enumerate() {
        let mut at = 0;
        for run in row.chunk_by(|one, next| one == next) {
            if run.first() == Some(&Color::Dark) {
                path += &format!("M{} {}h{}v1h-{}z", at + MARGIN, line + MARGIN, run.len(), run.len());
            }
            at += run.len();
        }
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\"><path fill=\"#fff\" d=\"M0 0h{size}v{size}H0z\"/><path d=\"{path}\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_drawn_with_its_finder_patterns_and_margin() {
        let drawn = svg("otpauth://totp/Acme:ada?secret=ABC").unwrap();
        // The top line of the finder pattern has seven dark modules, at the left and at the right.
        assert!(drawn.contains("d=\"M4 4h7v1h-7z") && drawn.contains("viewBox=\"0 0 37 37\""), "{drawn}");
        assert!(drawn.contains("M26 4h7v1h-7z") && drawn.contains("M4 32h7v1h-7z"), "{drawn}");
        assert!(svg(&"x".repeat(5000)).is_err());
    }
}
