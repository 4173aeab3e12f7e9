//! Judges transactions with adya, to compare verdicts and speed.
//!
//!     adya-peer list-append|rw-register MODEL FILE...
//!
//! A file holds histories as JSON lines, an empty line between two of them. For each history a
//! line of JSON tells the verdict, seconds of reading and of checking, and memory.

use std::time::{Duration, Instant};
use std::{env, fs, process};

use adya::{check, History, Opts, Workload};
use serde_json::json;

/// CPU seconds of this process so far, of all its threads.
fn spent() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|f| f.parse::<f64>().expect("ticks")).sum();
    ticks / 100.0
}

fn mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    let kib: u64 = line.split_whitespace().nth(1).expect("a size").parse().expect("kB");
    kib / 1024
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.len() < 3 {
        eprintln!("adya-peer list-append|rw-register MODEL FILE...");
        process::exit(2);
    }
    let workload = match arguments[0].as_str() {
        "list-append" => Workload::ListAppend,
        "rw-register" => Workload::RwRegister,
        other => panic!("no workload {other}"),
    };
    let options = Opts {
        models: vec![arguments[1].clone()],
        timeout: Duration::from_secs(10),
        ..Opts::default()
    };
    for name in &arguments[2..] {
        let (mut begun, mut used) = (Instant::now(), spent());
        let text = fs::read_to_string(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
            let history = match History::from_json(part) {
                Ok(history) => history,
                Err(error) => {
                    println!("{}", json!({"valid": "refused", "error": error.to_string()}));
                    continue;
                }
            };
            let (wall, cpu) = (Instant::now(), spent());
            let report = check(&history, workload, &options);
            println!(
                "{}",
                json!({
                    "valid": report.valid, "types": report.anomaly_types, "not": report.not,
                    "check_wall": wall.elapsed().as_secs_f64(), "check_cpu": spent() - cpu,
                    "wall": begun.elapsed().as_secs_f64(), "cpu": spent() - used, "mib": mib(),
                })
            );
            (begun, used) = (Instant::now(), spent());
        }
    }
}
